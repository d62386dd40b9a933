// Filters of the matrix and of the list of findings. Without scripts both are complete, and the filters do not show.
"use strict";
(() => {
  const form = document.querySelector("[data-filters]");
  if (!form) return;
  form.hidden = false;
  const matrix = document.querySelector("[data-matrix]");
  const rows = [...(matrix || form.parentElement.querySelector("table.list")).tBodies[0].rows];
  const fields = [...form.querySelectorAll("[data-filter]")];
  const name = (field) => field.dataset.filter + (field.dataset.axis || "");
  for (const row of rows) for (const cell of row.cells) cell.dataset.releases = cell.colSpan;

  const filterColumns = () => {
    const wanted = fields.filter((field) => field.dataset.filter === "axis" && field.value);
    const heads = [...matrix.tHead.rows[0].cells];
    heads.forEach((head, at) => {
      if (at > 0) head.hidden = wanted.some((field) => head.dataset["axis" + field.dataset.axis] !== field.value);
    });
    for (const row of rows) {
      let at = 0;
      for (const cell of row.cells) {  // which spans adjacent releases
        const releases = Number(cell.dataset.releases);
        const shown = heads.slice(at, at + releases).filter((head) => !head.hidden).length;
        cell.hidden = shown === 0;
        cell.colSpan = Math.max(1, shown);
        at += releases;
      }
    }
  };

  const apply = () => {
    const value = Object.fromEntries(fields.map((field) => [field.dataset.filter, field.value.trim()]));
    if (matrix) filterColumns();
    let shown = 0;
    for (const row of rows) {
      const text = (matrix ? row.cells[0] : row).textContent.toLowerCase();
      let fits = (!value.device || row.dataset.device === value.device) && text.includes((value.text || "").toLowerCase());
      if (matrix) {
        let any = !value.kind;
        for (const cell of [...row.cells].slice(1)) {
          const same = !value.kind || cell.dataset.kind === value.kind;
          cell.classList.toggle("dim", !same);
          any = any || (same && !cell.hidden);
        }
        fits = fits && any;
      } else {
        fits = fits && (!value.kind || row.dataset.kind === value.kind);
      }
      row.hidden = !fits;
      if (fits) shown += 1;
    }
    form.querySelector("[data-count]").textContent = `${shown} of ${rows.length} rows${form.dataset.search ? " on this page" : ""}`;
    if (form.dataset.search) searchElsewhere(value);
  };

  // What is on the list's other pages, once a search is typed.
  const elsewhere = document.querySelector("[data-everywhere]");
  const MOST = 100;
  let entries = null;
  const searchElsewhere = (value) => {
    const text = (value.text || "").toLowerCase();
    if (!value.device && !value.kind && !text) return elsewhere.replaceChildren();
    if (!entries) {
      window.dsregressSearch = (all) => { entries = all[form.dataset.filters]; apply(); };
      return window.dsregressLoad(form.dataset.search);
    }
    const found = entries.filter(([what, where, , kinds, device, page]) =>
      page !== Number(form.dataset.page) && (!value.device || device === value.device) && (!value.kind || kinds.includes(value.kind))
      && `${what} ${where}`.toLowerCase().includes(text));
    const heading = document.createElement("h2");
    heading.textContent = `On the other pages: ${found.length}`;
    const list = document.createElement("ul");
    for (const [what, where, page] of found.slice(0, MOST)) {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = form.dataset.root + page;
      link.textContent = what;
      item.append(link, where ? ` ${where}` : "");
      list.append(item);
    }
    if (found.length > MOST) {
      const item = document.createElement("li");
      item.textContent = `and ${found.length - MOST} more`;
      list.append(item);
    }
    return elsewhere.replaceChildren(heading, list);
  };

  const asked = window.dsregressChoices.read();
  for (const field of fields) if (asked.has(name(field))) field.value = asked.get(name(field));
  form.addEventListener("input", () => { apply(); window.dsregressChoices.write(fields.map((field) => [name(field), field.value])); });
  form.addEventListener("submit", (event) => event.preventDefault());
  apply();
})();
