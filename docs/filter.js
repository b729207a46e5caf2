// A field above every long table: only the rows that hold all of its words stay.
function filterable(table) {
  const rows = [...table.querySelectorAll("tbody tr")];
  if (rows.length < 20) return;
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = `filter ${rows.length} rows`;
  field.setAttribute("aria-label", "Filter the rows of the table below");
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  });
  table.before(field);
}

function element(name, text, ...below) {
  const made = document.createElement(name);
  if (text !== null) made.textContent = text;
  made.append(...below);
  return made;
}

// Cells are as a report writes them: Markdown's signs of stress are not shown, and a figure stays with its spread.
const plain = (text) => text.replace(/\*\*|^\*|\*$/g, "").replace(/ (?=[±[])|(?<=±|\[[^\]]*) /g, "\u00a0");

function drawn({ columns, rows }) {
  const line = (kind, cells) => element("tr", null, ...cells.map((cell) => element(kind, plain(cell))));
  const head = element("thead", null, line("th", columns));
  return element("table", null, head, element("tbody", null, ...rows.map((row) => line("td", row))));
}

// The tables of a report, a section at a time, from what runs/report_tables.py wrote and docs/hooks.py put into the page.
function tables(place) {
  const { parts } = JSON.parse(place.querySelector("script").textContent);
  const named = parts.flatMap((part) => part.sections.map((section) => ({ ...section, part: part.name })));
  const sections = named.filter((section) => section.tables.length);
  const choice = element("select", null, ...sections.map(({ part, name }) => element("option", `${part}: ${name}`)));
  choice.setAttribute("aria-label", "Which tables to show");
  const shown = element("div", null);
  const show = () => {
    const section = sections[choice.selectedIndex];
    shown.replaceChildren(...section.text.map((text) => element("p", text)), ...section.tables.map(drawn));
    shown.querySelectorAll("table").forEach(filterable);
  };
  choice.addEventListener("change", show);
  place.append(choice, shown);
  show();
}

document.querySelectorAll("article table").forEach(filterable);
document.querySelectorAll("[data-tables]").forEach(tables);

// What the theme leaves without a name for a screen reader.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
document.querySelectorAll(".md-nav__item--section > nav").forEach((part, number) => {
  part.removeAttribute("aria-labelledby");
  part.setAttribute("aria-label", `${part.getAttribute("data-md-level")} ${part.textContent.trim().split("\n")[0]} ${number}`);
});
// The theme makes these later, as a reader comes to them.
function name() {
  document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])").forEach((table) => table.setAttribute("tabindex", "0"));
  document.querySelectorAll(".md-code__nav:not([aria-label])").forEach((tools, number) => {
    tools.setAttribute("aria-label", `${tools.parentElement.id} ${number}`);
  });
}
const article = document.querySelector("article");
if (article) new MutationObserver(name).observe(article, { childList: true, subtree: true });
name();
