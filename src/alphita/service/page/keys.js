// Every shortcut, once: the listener and the help are made from this table.

import { byId, fill, make } from "./dom.js";

export const SHORTCUTS = [
  { action: "accept", group: "Decide", keys: ["Enter", "a"], says: "accept the first candidate" },
  { action: "candidate", group: "Decide", keys: ["1", "2", "3", "4", "5", "6", "7", "8", "9"], shown: "1 to 9", says: "take the candidate with that number" },
  { action: "other", group: "Decide", keys: ["/"], says: "another concept: search the whole terminology" },
  { action: "broader", group: "Decide", keys: ["b"], says: "the next concept that you take is broader than the text" },
  { action: "narrower", group: "Decide", keys: ["n"], says: "the next concept that you take is narrower than the text" },
  { action: "related", group: "Decide", keys: ["r"], says: "the next concept that you take is only related" },
  { action: "exact", group: "Decide", keys: ["="], says: "the next concept that you take is exactly what the text means" },
  { action: "nil", group: "Decide", keys: ["x"], says: "NIL: no concept fits" },
  { action: "reject", group: "Decide", keys: ["d"], says: "reject: the candidates are wrong, and you do not know the right one" },
  { action: "skip", group: "Decide", keys: ["s"], says: "skip for later" },
  { action: "flag", group: "Decide", keys: ["f"], says: "flag for somebody else" },
  { action: "comment", group: "Decide", keys: ["c"], says: "comment" },
  { action: "undo", group: "Decide", keys: ["u", "Ctrl+z"], says: "undo your last decision, or a whole bulk accept" },
  { action: "bulk", group: "Decide", keys: ["B"], says: "bulk accept above a threshold" },
  { action: "next", group: "View", keys: ["j"], says: "next row (in the list, also arrow keys)" },
  { action: "previous", group: "View", keys: ["k"], says: "previous row" },
  { action: "details", group: "View", keys: ["m"], says: "show more or less of each candidate" },
  { action: "find", group: "View", keys: ["q"], says: "find in the texts" },
  { action: "progress", group: "View", keys: ["p"], says: "progress and agreement" },
  { action: "disagreements", group: "View", keys: ["g"], says: "disagreements" },
  { action: "files", group: "View", keys: ["e"], says: "import and export" },
  { action: "theme", group: "View", keys: ["t"], says: "light, dark, or the system's theme" },
  { action: "help", group: "View", keys: ["?"], says: "this help" },
  { action: "cancel", group: "View", keys: ["Escape"], shown: "Esc", says: "close the dialog; cancel =, b, n or r" },
];

const BY_KEY = new Map(SHORTCUTS.flatMap((one) => one.keys.map((key) => [key, one.action])));
const SINGLE = "alphita.single";

/**
 * Call `actions[name](key)` for each shortcut that is allowed, unless something is being typed or a dialog is open.
 *
 * @param {Record<string, (key: string) => void>} actions
 * @param {(action: string) => boolean} isAllowed
 */
export function listen(actions, isAllowed) {
  const single = byId("help-single");
  single.checked = localStorage.getItem(SINGLE) !== "no";
  single.addEventListener("change", () => localStorage.setItem(SINGLE, single.checked ? "yes" : "no"));
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.altKey || event.metaKey) return;
    if (document.querySelector("dialog[open]")) return;
    const key = event.ctrlKey ? `Ctrl+${event.key.toLowerCase()}` : event.key;
    const action = BY_KEY.get(key);
    if (!action || !isAllowed(action) || isTyped(event.target, key)) return;
    if (!event.ctrlKey && !single.checked && action !== "cancel") return;
    event.preventDefault();
    if (event.repeat && action !== "next" && action !== "previous") return; // a key held down decides once
    actions[action](key);
  });
}

/** Whether the focused control wants the key for itself. */
function isTyped(target, key) {
  if (target.closest("select, textarea, [contenteditable]")) return key !== "Escape";
  const input = target.closest("input");
  if (input) return !["checkbox", "radio"].includes(input.type) && key !== "Escape";
  return key === "Enter" && Boolean(target.closest("button, a, summary"));
}

/** Lay out the help. */
export function help() {
  const groups = Map.groupBy(SHORTCUTS, (one) => one.group);
  fill(byId("help-keys"), [...groups].map(([group, shortcuts]) => make("section", {},
    make("h3", { text: group }),
    make("dl", { class: "keys" }, shortcuts.map((one) => make("div", {},
      make("dt", {}, (one.shown ? [one.shown] : one.keys).flatMap((key, place) => [place ? " or " : "", make("kbd", { text: key })])),
      make("dd", { text: one.says })))))));
}
