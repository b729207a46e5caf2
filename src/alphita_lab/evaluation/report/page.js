const value = (row, place) => row.cells[place]?.dataset.value ?? row.cells[place]?.textContent.trim() ?? "";
for (const table of /** @type {NodeListOf<HTMLTableElement>} */ (document.querySelectorAll("table.sortable"))) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") === "descending" ? 1 : -1;
      heads.forEach(one => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up > 0 ? "ascending" : "descending");
      const order = (a, b) => {
        const x = value(a, place), y = value(b, place), n = parseFloat(x), m = parseFloat(y);
        if (isNaN(n) && isNaN(m)) return up * x.localeCompare(y);
        return isNaN(n) ? 1 : isNaN(m) ? -1 : up * (n - m);
      };
      body.append(...[...body.rows].sort(order));
    });
  });
}
const filter = /** @type {HTMLInputElement} */ (document.getElementById("filter"));
filter.parentElement.hidden = false;
filter.addEventListener("input", () => {
  const wanted = filter.value.toLowerCase();
  for (const one of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-benchmark]")))
    one.hidden = !one.dataset.benchmark.toLowerCase().includes(wanted);
});
