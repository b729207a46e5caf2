// Files in and out.

import { path } from "./client.js";
import { byId, closable, fill, make, several } from "./dom.js";

const NAMES = {
  csv: "CSV", jsonl: "JSON Lines", parquet: "Parquet", sssom: "SSSOM", usagi: "Usagi", omop: "OMOP source_to_concept_map",
  fhir_r4: "FHIR R4 ConceptMap", fhir_r5: "FHIR R5 ConceptMap", html: "HTML page for reading",
};
const SAID = "alphita.export."; // what the file says of itself, by project

export class Files {
  /** `imported(name of the project)` is called when rows came in. */
  constructor(api, imported) {
    this.api = api;
    this.imported = imported;
    this.dialog = closable(byId("files"));
    byId("export").addEventListener("submit", (event) => { event.preventDefault(); this.#export(); });
    byId("import").addEventListener("submit", (event) => { event.preventDefault(); this.#import(); });
    byId("import-file").addEventListener("change", () => {
      const [file] = byId("import-file").files;
      if (file && !byId("import-name").value) byId("import-name").value = file.name.replace(/\.\w+$/, "");
    });
  }

  async open(project) {
    this.project = project;
    this.#say("");
    this.dialog.showModal();
    const said = JSON.parse(localStorage.getItem(SAID + project) || "{}");
    const inputs = /** @type {NodeListOf<HTMLInputElement>} */ (byId("export").querySelectorAll("details input"));
    for (const input of inputs) input.value = said[input.name] || "";
    try {
      if (!byId("export-formats").querySelector("input")) await this.#formats();
    } catch (error) {
      this.#say(`Formats not loaded: ${error.message}.`);
    }
    for (const control of /** @type {Iterable<HTMLInputElement>} */ (byId("export").elements)) control.disabled = !project;
  }

  async #formats() {
    const { formats } = await this.api.get("/api/projects");
    byId("export-formats").append(...Object.keys(NAMES).filter((format) => formats.includes(format)).map((format, place) => make("label", {},
      make("input", { type: "radio", name: "format", value: format, checked: place === 0 }), ` ${NAMES[format]}`)));
  }

  async #export() {
    const form = new FormData(byId("export"));
    const said = Object.fromEntries([...form].filter(([name, value]) => name !== "format" && String(value).trim()));
    localStorage.setItem(SAID + this.project, JSON.stringify(said));
    const settled = byId("export-settled").checked;
    this.#say("Writing …");
    try {
      const { bytes, name, response } = await this.api.file(path(this.project, "export"), { format: form.get("format"), settled, ...said });
      const link = make("a", { href: URL.createObjectURL(bytes), download: name || `${this.project}.${form.get("format")}` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
      this.#say(`Exported: ${link.download}.`, losses(response.headers));
    } catch (error) {
      this.#say(`Not exported: ${error.message}.`);
    }
  }

  async #import() {
    const [file] = byId("import-file").files;
    const name = byId("import-name").value.trim();
    const answered = Object.fromEntries([...new FormData(byId("import"))].map(([key, value]) => [key, String(value).split(";").map((one) => one.trim())]));
    this.#say("Importing …");
    try {
      const { new: added, known, set_aside: aside, decided = 0, overtaken = 0, left_out: leftOut = {} } = await this.api.send("/api/projects", { name, source: byId("import-source").value.trim(), column: byId("import-column").value.trim(), filename: file.name, ...answered }, file);
      const said = [
        ...decided ? [`${several(decided, "decision")} imported`] : [],
        ...overtaken ? [`not imported, because they are not newer than the existing decision or reject a concept other than the answer: ${overtaken}`] : [],
        ...Object.entries(leftOut).map(([what, number]) => `not imported: ${number} ${what}`),
      ];
      this.#say(`Imported into ${name}: ${several(added, "new row")}, ${several(known, "known row")}.`, said.length ? ` ${said.join("; ")}.` : "", aside ? ` ${several(aside, "line")} set aside because they could not be read.` : "");
      byId("import").reset();
      this.imported(name);
    } catch (error) {
      this.#say(`Not imported: ${error.message}.`);
    }
  }

  #say(...texts) {
    fill(byId("files-said"), texts);
  }
}

/** What a format could not hold, as the server counted it. */
function losses(headers) {
  const lost = Object.entries(JSON.parse(headers.get("X-Alphita-Losses") || "{}"));
  const aside = Number(headers.get("X-Alphita-Set-Aside") || 0);
  const parts = lost.map(([what, number]) => `${what}: ${number}`);
  if (aside) parts.push(`left out because the format cannot hold them: ${aside}`);
  return parts.length ? ` Not in this format: ${parts.join("; ")}.` : "";
}
