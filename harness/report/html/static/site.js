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

  const filterColumns = () => {
    const wanted = fields.filter((field) => field.dataset.filter === "axis" && field.value);
    const heads = [...matrix.tHead.rows[0].cells];
    heads.forEach((head, at) => {
      if (at === 0) return;
      const hidden = wanted.some((field) => head.dataset["axis" + field.dataset.axis] !== field.value);
      head.hidden = hidden;
      for (const row of rows) row.cells[at].hidden = hidden;
    });
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
    form.querySelector("[data-count]").textContent = `${shown} of ${rows.length} rows`;
  };

  const remember = () => {
    const set = fields.filter((field) => field.value).map((field) => [name(field), field.value]);
    history.replaceState(null, "", set.length ? "#" + new URLSearchParams(set) : location.pathname + location.search);
  };

  const asked = new URLSearchParams(location.hash.slice(1));
  for (const field of fields) if (asked.has(name(field))) field.value = asked.get(name(field));
  form.addEventListener("input", () => { apply(); remember(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  apply();
})();
