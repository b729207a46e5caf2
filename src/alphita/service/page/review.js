// The review page: which row is in hand, and what the keys and buttons do with it.

import { Api, path } from "./client.js";
import { Bulk } from "./bulk.js";
import { Disagreements } from "./disagreements.js";
import { around, byId, closable, count, fill, make, percent, several } from "./dom.js";
import { Files } from "./files.js";
import { help, listen } from "./keys.js";
import { Outbox } from "./outbox.js";
import { Picker } from "./picker.js";
import { Progress } from "./progress.js";
import { Queue } from "./queue.js";
import { showRow, texts } from "./row.js";
import { isFinal, says } from "./words.js";

const AHEAD = 5; // rows whose candidates are fetched before they are in hand
const STUBBORN = 4; // attempts after which a decision may be given up
const NARROW = matchMedia("(max-width: 56rem), (max-height: 30rem)");
const THEMES = ["system", "light", "dark"];

const api = new Api(askKey, () => { page.leaving = true; location.reload(); });
const outbox = new Outbox(api);
const picker = new Picker(api);
const queue = new Queue({ fetchPage, onPick, onCount, onTrouble: (error) => say(`Rows not loaded: ${error.message}.`) });
const bulk = new Bulk(api, bulkApplied);
const progress = new Progress(api);
const disagreements = new Disagreements(api, picker, (id) => { forget(id); queue.mark(id, "settled", leavesList({ settled: true })); refreshProgress(); });
const files = new Files(api, imported);

const page = {
  me: /** @type {any} */ (null),
  leaving: false, // and nothing unsaved would be lost
  project: null, // its name
  blind: false,
  finished: false, // nothing is open below or above the row in hand
  row: null, // in hand, as the list has it
  relation: null, // of the next concept taken, if it is not as the candidate has it
  more: false,
  details: new Map(), // promises by row id
  loaded: new Map(), // what they gave
  drafts: new Map(), // comments not sent yet, by row id
  problems: new Map(), // by uid: what the server refused
  conflicts: [],
};

// --- The server's side -------------------------------------------------------------------------------------------

function filters() {
  return {
    order: byId("filter-order").value,
    state: byId("filter-state").value,
    search: byId("filter-search").value.trim(),
    type: byId("filter-type").value.trim(),
  };
}

function fetchPage(offset, limit, signal) {
  return api.get(path(page.project, "rows"), { ...filters(), offset, limit }, signal);
}

/** What the server knows of a row; asked for once, until something is decided. */
function detail(id) {
  if (!page.details.has(id)) {
    const asked = api.get(path(page.project, "rows", id));
    page.details.set(id, asked);
    asked.then((known) => {
      if (page.details.get(id) !== asked) return;
      page.loaded.set(id, known);
      rememberTypes(known);
    }, () => { if (page.details.get(id) === asked) page.details.delete(id); });
  }
  return page.details.get(id);
}

function forget(id) {
  page.details.delete(id);
  page.loaded.delete(id);
}

function rememberTypes(known) {
  const list = byId("types");
  const there = new Set([...list.options].map((option) => option.value));
  for (const type of known.candidates.flatMap((one) => texts(one.types))) {
    if (!there.has(type)) list.append(make("option", { value: type }));
    there.add(type);
  }
}

// --- The row in hand ---------------------------------------------------------------------------------------------

async function onPick(row) {
  const before = page.row;
  const other = row?.id !== before?.id;
  page.row = row;
  if (other) {
    page.relation = null;
    page.finished = false;
  }
  draw();
  if (!row) return;
  if (other) byId("hand").scrollTop = 0;
  // In one column the row lies below the list; the first row of a list leaves the page at its top.
  if (other && before && NARROW.matches) byId("row").scrollIntoView();
  if (!document.activeElement?.closest("#list, #filters, dialog[open]")) byId("hand-mention")?.focus({ preventScroll: true });
  try {
    await detail(row.id);
  } catch (error) {
    if (page.row?.id === row.id) say(`Candidates not loaded: ${error.message}.`);
    return;
  }
  if (page.row?.id === row.id) draw();
  for (const next of queue.following(AHEAD)) detail(next.id).catch(() => {});
}

function draw() {
  const { row } = page;
  const mark = row && { saving: "being saved …", waiting: "not saved yet", problem: "not saved" }[queue.marks.get(row.id)];
  const focused = document.activeElement?.id === "hand-mention";
  showRow(row, row && page.loaded.get(row.id), { blind: page.blind, more: page.more, relation: page.relation, draft: row && page.drafts.get(row.id), mark, finished: page.finished });
  if (focused) byId("hand-mention")?.focus({ preventScroll: true });
  for (const button of /** @type {Iterable<HTMLButtonElement>} */ (byId("actions").children)) {
    button.disabled = !row && button.dataset.action !== "undo";
    if (button.hasAttribute("aria-pressed")) button.setAttribute("aria-pressed", String(button.dataset.action === RELATION_NAMES[page.relation]));
  }
}

const RELATION_NAMES = { broad: "broader", narrow: "narrower", related: "related" };

function candidates() {
  const { row } = page;
  if (!row) return [];
  return page.loaded.get(row.id)?.candidates || (row.answer ? [row.answer] : []);
}

/** Take the candidate of a number, from 1. */
function take(number) {
  const one = candidates()[number - 1];
  if (!one) {
    say(`There is no candidate ${number}.`);
    return;
  }
  if (!one.concept_id) decide("nil");
  // OMOP has a standard concept instead.
  else if (one.maps_to?.length) choose(one.concept_id, one.relation);
  else if (number === 1 && !page.relation) decide("accept", one.concept_id, one.relation || "exact");
  else decide("choose", one.concept_id, page.relation || one.relation || "exact");
}

/**
 * Let the user search for concepts, first for what is `typed`, and take them.
 *
 * @param {string} [typed]
 * @param {string | null} [relation]
 */
async function choose(typed, relation = null) {
  const { row } = page;
  if (!row) return;
  const found = await picker.ask(row.mention, page.relation || relation || "exact", page.project || "", typed);
  if (found && page.row?.id === row.id) decide("choose", found.id, found.relation);
}

/** Send a decision on the row in hand, and go on to the next. */
function decide(kind, concept = null, relation = null, { stay = false } = {}) {
  const { row } = page;
  if (!row) return;
  const known = page.loaded.get(row.id);
  if (!known) {
    say("Not decided: the candidates are not loaded yet.");
    onPick(row);
    return;
  }
  const comment = page.drafts.get(row.id);
  const body = { uid: crypto.randomUUID(), kind, ...(concept ? { concept_id: concept, relation } : {}), ...(comment ? { comment } : {}), seen: known.newest };
  page.drafts.delete(row.id);
  for (const [uid, problem] of page.problems) if (problem.row === row.id) page.problems.delete(uid);
  queue.mark(row.id, "saving");
  outbox.add({ uid: body.uid, reviewer: page.me.reviewer, project: page.project, row: row.id, path: path(page.project, "rows", row.id, "decisions"), body, mention: row.mention });
  page.relation = null;
  if (stay) draw();
  else goOn();
}

async function goOn() {
  const position = await queue.nextOpen();
  if (position !== null) {
    await queue.pick(position);
    return;
  }
  if (queue.hasLater) {
    outbox.whenSaved(async () => {
      await queue.restart();
      say("Now the rows that you skipped.");
    });
    return;
  }
  page.finished = true;
  draw();
}

// --- What became of decisions ------------------------------------------------------------------------------------

/**
 * Whether a row of this standing is no longer in the list that the filters ask the server for.
 *
 * @param {{decision?: any, settled?: boolean}} standing
 */
function leavesList({ decision, settled = false }) {
  const { state } = filters();
  if (state === "open") return settled || isFinal(decision) || ["flag", "skip"].includes(decision?.kind);
  return false;
}

outbox.addEventListener("saved", (/** @type {any} */ { detail: { item, answer } }) => {
  if (item.project !== page.project) return;
  if (item.row === null) undone(answer);
  else {
    const { decision } = answer;
    forget(item.row);
    queue.replace({ id: item.row, mine: decision });
    queue.mark(item.row, { accept: "saved", choose: "saved" }[decision.kind] || decision.kind, leavesList({ decision, settled: answer.standing?.settled }));
    say(`Saved: ${item.mention}: ${says(decision)}.`);
    if (page.row?.id === item.row) onPick({ ...page.row, mine: decision });
  }
  refreshProgress();
});

async function undone({ undone: taken, row }) {
  if (!taken?.length) {
    say("You have no decision to undo.");
    return;
  }
  say(taken.length === 1 ? `Undone: ${says(taken[0])}.` : `Undone: ${several(taken.length, "decision")}, accepted in bulk.`);
  for (const decision of taken) forget(decision.row);
  if (taken.length > 1 || !queue.positions.has(row)) await queue.restart(row);
  if (!queue.positions.has(row)) {
    await bring(row);
    return;
  }
  try {
    const known = await detail(row); // an earlier decision may be in force again
    queue.replace({ ...known, id: row });
    queue.mark(row, null, leavesList({ decision: known.mine, settled: known.settled }));
  } catch (error) {
    say(`Undone, but the row was not loaded: ${error.message}.`);
  }
  queue.pickRow(row);
}

/** Take a row in hand that the list does not have. */
async function bring(id) {
  try {
    const row = await detail(id);
    queue.leave();
    onPick(row);
  } catch (error) {
    say(`Row not loaded: ${error.message}.`);
  }
}

outbox.addEventListener("refused", (/** @type {any} */ { detail: { item, error } }) => {
  page.problems.set(item.uid, { project: item.project, row: item.row, text: `${item.mention ? `“${item.mention}”` : "The undo"} was not saved: ${error.message}.` });
  if (item.project === page.project && item.row !== null) queue.mark(item.row, "problem");
  notices();
  if (page.row?.id === item.row) draw();
});

outbox.addEventListener("conflict", (/** @type {any} */ { detail: { item, newest } }) => {
  if (item.row === null || !newest) {
    outbox.dispatchEvent(new CustomEvent("refused", { detail: { item, error: new Error("somebody decided in the meantime") } }));
    return;
  }
  if (item.project === page.project) queue.mark(item.row, "problem");
  page.conflicts.push({ item, newest });
  showConflict();
});

outbox.addEventListener("change", () => {
  for (const item of outbox.items) {
    if (item.project === page.project && item.row !== null) queue.mark(item.row, outbox.trouble ? "waiting" : "saving");
  }
  if (outbox.trouble && !page.troubled) say(`Not saved yet: ${outbox.trouble}. The page will try again.`);
  page.troubled = Boolean(outbox.trouble);
  byId("pending").textContent = outbox.size ? `${several(outbox.size, "decision")} not saved yet` : "";
  notices();
  if (page.row && outbox.items.some((item) => item.row === page.row.id)) draw();
});

function showConflict() {
  const dialog = byId("conflict");
  if (dialog.open || !page.conflicts.length || document.querySelector("dialog[open]")) return;
  const { item, newest } = page.conflicts[0];
  byId("conflict-mention").textContent = item.mention;
  byId("conflict-theirs").textContent = says(newest);
  byId("conflict-mine").textContent = says({ ...item.body });
  dialog.showModal();
}

function resolveConflict(replace) {
  const conflict = page.conflicts.shift();
  if (!conflict) return;
  const { item, newest } = conflict;
  forget(item.row);
  queue.replace({ id: item.row, mine: newest });
  if (replace) {
    const uid = crypto.randomUUID();
    queue.mark(item.row, "saving");
    outbox.add({ ...item, uid, body: { ...item.body, uid, seen: newest.id } });
  } else {
    queue.mark(item.row, { accept: "saved", choose: "saved" }[newest.kind] || newest.kind, leavesList({ decision: newest }));
    say(`Kept: ${item.mention}: ${says(newest)}.`);
    if (page.row?.id === item.row) onPick({ ...page.row, mine: newest });
  }
  byId("conflict").close();
}

/** What is not saved, at the top of the page. It is laid out again only when that changes; the seconds run by themselves. */
function notices() {
  const lines = [];
  if (outbox.trouble) {
    lines.push(make("p", { class: "notice" }, `${several(outbox.size, "decision")} not saved yet: ${outbox.trouble}. `,
      make("span", { id: "countdown", "aria-hidden": "true" }), " Kept in this browser until then. ",
      make("button", { type: "button", id: "retry", on: { click: () => outbox.retryNow() } }, "Try now"),
      outbox.failures < STUBBORN ? null : [" ", make("button", { type: "button", id: "discard", on: { click: () => outbox.discard() } }, "Discard the first")]));
  }
  for (const [uid, problem] of page.problems) {
    lines.push(make("p", { class: "notice bad" }, `${problem.text} `,
      problem.row === null || problem.project !== page.project ? null : make("button", { type: "button", on: { click: () => { if (!queue.pickRow(problem.row)) bring(problem.row); } } }, "To the row"),
      " ", make("button", { type: "button", on: { click: () => { page.problems.delete(uid); notices(); } } }, "Dismiss")));
  }
  const retrying = document.activeElement?.id === "retry";
  fill(byId("notices"), lines);
  if (retrying) (byId("retry") || byId("row")).focus();
  countDown();
}

function countDown() {
  const seconds = Math.ceil((outbox.until - performance.now()) / 1000);
  const place = byId("countdown");
  if (place) place.textContent = seconds > 0 ? `Trying again in ${seconds} s.` : "Trying …";
}

async function refreshProgress() {
  clearTimeout(page.counting);
  page.counting = setTimeout(async () => {
    if (!page.project) return;
    try {
      const found = await api.get(path(page.project, "progress"));
      byId("decided-bar").max = Math.max(1, found.occurrences);
      byId("decided-bar").value = found.decided_occurrences;
      byId("decided-text").textContent = `${count(found.decided)} of ${count(found.rows)} rows, ${percent(found.occurrences ? found.decided_occurrences / found.occurrences : 0)} of occurrences`;
    } catch {
      // The next decision counts again.
    }
  }, 400);
}

function onCount() {
  const { state } = filters();
  byId("queue-count").textContent = `${several(queue.left, "row")}${state === "all" ? "" : `, ${state}`}`;
}

function say(text) {
  byId("said").textContent = text;
}

// --- Keys and buttons --------------------------------------------------------------------------------------------

function toggleRelation(relation) {
  if (!page.row) return;
  page.relation = page.relation === relation ? null : relation;
  draw();
}

async function step(by) {
  await queue.pick((queue.position ?? (by > 0 ? -1 : 0)) + by);
}

const actions = {
  accept: () => take(1),
  candidate: (key) => take(Number(key)),
  other: () => choose(),
  exact: () => toggleRelation("exact"),
  broader: () => toggleRelation("broad"),
  narrower: () => toggleRelation("narrow"),
  related: () => toggleRelation("related"),
  nil: () => decide("nil"),
  reject: () => decide("reject"),
  skip: () => decide("skip"),
  flag: () => decide("flag"),
  comment: () => askComment(),
  undo: () => {
    if (!page.project) return;
    const uid = crypto.randomUUID();
    outbox.add({ uid, reviewer: page.me.reviewer, project: page.project, row: null, path: path(page.project, "undo"), body: { uid }, mention: "" });
  },
  bulk: () => { if (page.project) bulk.open(page.project, { hasConfidence: page.me.assurance !== null, pending: outbox.size }); },
  next: () => step(1),
  previous: () => step(-1),
  details: () => { page.more = !page.more; draw(); },
  find: () => byId("filter-search").focus(),
  progress: () => { if (page.project) progress.open(page.project); },
  disagreements: () => { if (page.project) disagreements.open(page.project); },
  files: () => files.open(page.project),
  theme: () => {
    const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
    localStorage.setItem("alphita.theme", next);
    document.documentElement.dataset.theme = next;
    nameTheme();
  },
  help: () => byId("help").showModal(),
  cancel: () => {
    page.relation = null;
    draw();
    if (document.activeElement?.closest("#filters")) byId("list").focus();
  },
};

function nameTheme() {
  byId("theme").firstChild.textContent = `Theme: ${document.documentElement.dataset.theme.replace("system", "auto")} `;
}

function bulkApplied({ rows, applied }) {
  const number = typeof applied === "number" ? applied : rows;
  say(`Saved: ${several(number, "row")} accepted in bulk. Undo reverts all of them.`);
  page.details.clear();
  page.loaded.clear();
  reload(page.row?.id);
  refreshProgress();
}

function askComment() {
  const { row } = page;
  if (!row) return;
  const known = page.loaded.get(row.id)?.decisions?.find((one) => one.reviewer === page.me.reviewer) || row.mine;
  const again = known && ["accept", "choose", "nil", "reject", "skip", "flag"].includes(known.kind) ? known : null;
  page.commenting = { row, again };
  byId("comment-about").textContent = again ? `Saved with your decision: ${says(again)}.` : "Saved with your next decision on this row.";
  byId("comment-keep").firstChild.textContent = again ? "Save " : "Keep ";
  byId("comment-text").value = page.drafts.get(row.id) || again?.comment || "";
  byId("comment").showModal();
  byId("comment-text").focus();
}

function keepComment() {
  const { row, again } = page.commenting;
  const text = byId("comment-text").value.trim();
  if (text) page.drafts.set(row.id, text);
  else page.drafts.delete(row.id);
  byId("comment").close();
  if (page.row?.id !== row.id) return;
  if (again && text !== (again.comment || "")) decide(again.kind, again.concept_id, again.relation, { stay: true });
  else draw();
}

// --- Beginning ---------------------------------------------------------------------------------------------------

function askKey(wrong) {
  const dialog = byId("key");
  byId("key-login").hidden = !api.hasLogin;
  byId("key-about").textContent = wrong ? "This key is unknown or has expired." : "This server identifies reviewers by a key. The page keeps it until you close this tab.";
  byId("key-input").value = "";
  if (!dialog.open) dialog.showModal();
  byId("key-input").focus();
  return new Promise((resolve) => {
    byId("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      dialog.close();
      resolve(byId("key-input").value.trim());
    }, { once: true });
  });
}

/** Load the list again; `keep`: the row that stays in hand if it is near the top. */
async function reload(keep = null) {
  try {
    await queue.restart(keep);
  } catch (error) {
    say(`Rows not loaded: ${error.message}.`);
  }
}

async function openProject(name) {
  page.project = name;
  page.row = null;
  page.details.clear();
  page.loaded.clear();
  history.replaceState(null, "", `#${encodeURIComponent(name)}`);
  const { blind, filters, rights } = page.me.projects.find((one) => one.name === name);
  allow(rights);
  page.blind = Boolean(blind);
  picker.narrow(page.me.choices, Boolean(filters.standard_only));
  notices();
  await reload();
  refreshProgress();
}

/**
 * Show what these rights are needed for, and nothing else that needs one.
 *
 * @param {string[]} rights
 */
function allow(rights) {
  for (const part of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-right]"))) part.hidden = !rights.includes(part.dataset.right || "");
}

/** @param {string} action */
function isAllowed(action) {
  const part = ["candidate", "exact"].includes(action) ? byId("actions") : document.querySelector(`button[data-action="${action}"]`);
  return !part?.closest("[hidden]");
}

async function logOut() {
  try {
    location.href = (await api.post("/logout", {})).url;
  } catch (error) {
    say(`Not logged out: ${/** @type {Error} */ (error).message}.`);
  }
}

async function projects() {
  page.me = await api.get("/api/me");
  const names = page.me.projects.map((one) => one.name);
  fill(byId("project"), names.map((name) => make("option", { value: name, text: name })));
  return names;
}

async function imported(name) {
  await projects();
  byId("project").value = name;
  files.project = name;
  await openProject(name);
}

async function begin() {
  let names;
  try {
    names = await projects();
  } catch (error) {
    fill(byId("notices"), make("p", { class: "notice bad" }, `The server does not answer: ${error.message}. `, make("button", { type: "button", on: { click: () => location.reload() } }, "Reload")));
    return;
  }
  api.reviewer = page.me.reviewer;
  const { reviewer, version, release, assurance } = page.me;
  byId("who").textContent = [`reviewer: ${reviewer}`, release && `release ${release}`, assurance ? null : "not calibrated", `Alphita ${version}`].filter(Boolean).join(" · ");
  const resumed = outbox.resume(reviewer);
  if (resumed.length) say(`${several(resumed.length, "decision")} from an earlier visit: saving now.`);
  byId("logout").hidden = !page.me.login || api.hasKey;
  const asked = decodeURIComponent(location.hash.slice(1));
  const name = names.includes(asked) ? asked : names[0];
  if (name === undefined) {
    draw();
    allow(page.me.rights);
    if (page.me.rights.includes("administer")) files.open(null);
    else say("There is no project that you may read.");
    return;
  }
  byId("project").value = name;
  await openProject(name);
}

help();
nameTheme();
listen(actions, isAllowed);
for (const dialog of document.querySelectorAll("dialog")) dialog.addEventListener("close", showConflict);
for (const dialog of [byId("help"), byId("comment")]) closable(dialog);
document.addEventListener("click", (event) => {
  const button = around(event, "button[data-action]");
  if (button && !button.disabled) actions[button.dataset.action]();
});
byId("hand").addEventListener("click", (event) => {
  const button = around(event, "button[data-candidate]");
  if (button && isAllowed("candidate")) take(Number(button.dataset.candidate));
});
byId("comment").querySelector("form").addEventListener("submit", (event) => { event.preventDefault(); keepComment(); });
byId("comment-text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); keepComment(); }
});
byId("conflict-keep").addEventListener("click", () => resolveConflict(false));
byId("conflict-replace").addEventListener("click", () => resolveConflict(true));
byId("conflict").addEventListener("cancel", (event) => event.preventDefault()); // it must be answered
byId("key").addEventListener("cancel", (event) => event.preventDefault());
byId("login").addEventListener("click", () => {
  page.leaving = true; // what is not saved yet is kept, and sent afterwards
  location.href = `/login?next=${encodeURIComponent(location.pathname + location.hash)}`;
});
byId("logout").addEventListener("click", logOut);
byId("project").addEventListener("change", () => openProject(byId("project").value));
byId("filters").addEventListener("submit", (event) => {
  event.preventDefault();
  reload();
  byId("list").focus(); // so that keys are shortcuts again
});
for (const filter of [byId("filter-state"), byId("filter-order"), byId("filter-type")]) filter.addEventListener("change", () => reload());
byId("filter-search").addEventListener("input", () => { clearTimeout(page.finding); page.finding = setTimeout(() => reload(), 200); });
window.addEventListener("beforeunload", (event) => { if (!page.leaving && (outbox.size || page.drafts.size)) event.preventDefault(); });
window.addEventListener("online", () => outbox.retryNow());
setInterval(countDown, 1000);
begin();
