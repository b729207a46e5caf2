// Making elements. Text only ever goes in as text, so that nothing from a terminology or a comment is read as HTML.

/**
 * Return the element with this id. The type checker takes its kind from index.html (tests/service/test_page.py).
 *
 * @template {keyof Elements} Id
 * @param {Id} id
 * @returns {Elements[Id]}
 */
export const byId = (id) => /** @type {any} */ (document.getElementById(id));

/**
 * Return the element around what an event happened to that fits a selector, or null.
 *
 * @param {Event} event
 * @param {string} selector
 * @returns {any}
 */
export const around = (event, selector) => (event.target instanceof Element ? event.target.closest(selector) : null);

/**
 * Make an element.
 *
 * Properties: `class`, `text`, `on` (listeners by event), `data` (dataset); others are attributes, left out where
 * null or false. Children that are null are left out; strings become text.
 *
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, any>} properties
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function make(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") made.className = value;
    else if (key === "text") made.textContent = value;
    else if (key === "on") for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener);
    else if (key === "data") Object.assign(made.dataset, value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat(2).filter((child) => child !== null && child !== undefined));
  return made;
}

/** Replace what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}

const whole = new Intl.NumberFormat("en");
/** A count, as 12,345. */
export const count = (number) => whole.format(number);

/** A number of things, as "1 row" or "12 rows". */
export const several = (number, thing) => `${count(number)} ${thing}${number === 1 ? "" : "s"}`;

/** A probability in percent; near 1 with a decimal more, for 99.6 is not 100. */
export function percent(share) {
  if (share === null || share === undefined) return "–";
  const digits = share > 0.99 && share < 1 ? 1 : 0;
  return `${Math.min(100 * share, share < 1 ? 99.9 : 100).toFixed(digits)}%`;
}

/**
 * Close a dialog by its close button, and give its width back to what was focused before.
 *
 * @param {HTMLDialogElement} dialog
 */
export function closable(dialog) {
  for (const button of dialog.querySelectorAll("button.close")) button.addEventListener("click", () => dialog.close());
  return dialog;
}
