// Asking the server. Three things can go wrong, and each is an error of its own kind: the server refuses (`Refused`:
// asking again will not help), somebody was faster (`Conflict`), or it does not answer for now (`Unreachable`).

/** The server understood, and said no. */
export class Refused extends Error {
  constructor(status, error) {
    super(error?.message || `the server answered ${status}`);
    this.status = status;
    this.code = error?.code;
    this.field = error?.field;
  }
}

/** This row has a newer decision of the same reviewer. */
export class Conflict extends Refused {
  constructor(body) {
    super(409, body?.error);
    this.newest = body?.newest;
  }
}

/** No answer, or one that says "later". `seconds`: when to ask again, if the server said it. */
export class Unreachable extends Error {
  constructor(message, seconds) {
    super(message);
    this.seconds = seconds;
  }
}

const KEY = "alphita.key";
const LOGIN = "alphita.login";
const PATIENCE = 20_000; // ms

export class Api {
  /**
   * `askKey(wrong)` resolves with a key; it is called when the server wants one (see `hasLogin`, too). `onOther()` is
   * called when that key is not of the `reviewer` who was here before.
   */
  constructor(askKey, onOther) {
    this.askKey = askKey;
    this.onOther = onOther;
    this.reviewer = null;
    this.asking = null;
  }

  /** Whether one can log in at the server, by /login. */
  get hasLogin() {
    return sessionStorage.getItem(LOGIN) === "yes";
  }

  /** Whether a key of this tab says who asks, and not a login. */
  get hasKey() {
    return Boolean(sessionStorage.getItem(KEY));
  }

  get(path, query = {}, signal = undefined) {
    return this.#json("GET", path, { query, signal });
  }

  post(path, body, signal = undefined) {
    const headers = { "Content-Type": "application/json" };
    return this.#json("POST", path, { body: JSON.stringify(body), headers, signal });
  }

  /** Send a file as it is; what it is called and belongs to stands in the query. */
  send(path, query, file) {
    const headers = { "Content-Type": "application/octet-stream" };
    return this.#json("POST", path, { query, body: file, headers, patience: 300_000 });
  }

  /** Return a file of the server's: its bytes and its name. */
  async file(path, query) {
    const response = await this.#ask("GET", path, { query, patience: 300_000 });
    const said = response.headers.get("Content-Disposition") || "";
    return { bytes: await response.blob(), name: /filename="?([^";]+)"?/.exec(said)?.[1], response };
  }

  async #json(method, path, options) {
    return (await this.#ask(method, path, options)).json();
  }

  /** @param {{query?: object, body?: any, headers?: object, signal?: AbortSignal, patience?: number}} options */
  async #ask(method, path, options) {
    const { query = {}, body, headers = {}, signal, patience = PATIENCE } = options;
    const asked = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      for (const one of Array.isArray(value) ? value : [value]) if (one !== "" && one !== null) asked.append(name, one);
    }
    const address = asked.size ? `${path}?${asked}` : path;
    const sent = sessionStorage.getItem(KEY);
    const all = { Accept: "application/json, */*", ...headers, ...(sent ? { Authorization: `Bearer ${sent}` } : {}) };
    const patient = AbortSignal.timeout(patience);
    const either = signal ? AbortSignal.any([signal, patient]) : patient;
    let response;
    try {
      response = await fetch(address, { method, body, headers: all, signal: either, credentials: "same-origin", cache: "no-store" });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new Unreachable(patient.aborted ? "the server takes too long" : "the server cannot be reached");
    }
    if (response.ok) return response;
    const said = await response.json().catch(() => null);
    if (response.status === 401) {
      if (said?.error?.code === "no_session") sessionStorage.setItem(LOGIN, "yes");
      await this.#newKey(sent);
      return this.#ask(method, path, { query, body, headers, signal, patience });
    }
    if (response.status === 409) throw new Conflict(said);
    if (response.status >= 500 || response.status === 429 || response.status === 408) {
      const seconds = Number.parseFloat(response.headers.get("Retry-After")) || undefined;
      throw new Unreachable(said?.error?.message || `the server answered ${response.status}`, seconds);
    }
    throw new Refused(response.status, said?.error);
  }

  /** Ask for a key once, however many requests want it. */
  async #newKey(sent) {
    if (!this.asking && sessionStorage.getItem(KEY) !== sent) return; // one was given meanwhile
    this.asking ||= this.#takeKey(Boolean(sent)).finally(() => { this.asking = null; });
    await this.asking;
  }

  async #takeKey(wrong) {
    const key = await this.askKey(wrong);
    if (this.reviewer === null) {
      sessionStorage.setItem(KEY, key);
      return;
    }
    const response = await fetch("/api/me", { headers: { Authorization: `Bearer ${key}` }, cache: "no-store" }).catch(() => null);
    if (!response || response.status >= 500 || response.status === 429) throw new Unreachable("the key could not be checked");
    const other = response.ok && (await response.json()).reviewer !== this.reviewer;
    sessionStorage.setItem(KEY, key);
    if (!other) return;
    this.onOther();
    await new Promise(() => {}); // what was asked for in the name of the one is never sent in that of the other
  }
}

/** The path of something of a project. */
export const path = (project, ...parts) => ["/api/projects", project, ...parts].map((part, place) => (place ? encodeURIComponent(part) : part)).join("/");
