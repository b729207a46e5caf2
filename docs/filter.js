// A field above every long table: only the rows that hold all of its words stay.
for (const table of document.querySelectorAll("article table")) {
  const rows = [...table.querySelectorAll("tbody tr")];
  if (rows.length < 12) continue;
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = `filter ${rows.length} rows`;
  field.setAttribute("aria-label", "Filter the rows of the table below");
  field.className = "md-input";
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  });
  table.before(field);
}
