// Two stacks side by side. Each stack's figures are a script of their own, since pages from file:// may read no others.
"use strict";
(() => {
  const form = document.querySelector("[data-compare]");
  const place = document.querySelector("[data-result]");
  const files = JSON.parse(place.dataset.files);
  const metrics = new Map(JSON.parse(place.dataset.metrics).map((metric) => [metric.name, metric]));
  const loaded = new Map();
  const field = (name) => form.querySelector(`[data-side="${name}"]`);
  const MOST = 500;

  window.dsregressStack = (file, content) => { loaded.set(file, content); };

  const load = (file) => window.dsregressLoad(file).then(() => loaded.get(file));

  const scaled = (value, base, names) => {
    let size = Math.abs(value), at = -1;
    while (size >= base && at < names.length - 1) { size /= base; at += 1; }
    return `${value < 0 ? "-" : ""}${at < 0 || size >= 100 ? Math.round(size) : size.toPrecision(3)} ${at < 0 ? "" : names[at]}`;
  };
  const shown = (value, unit) => {
    if (value === undefined) return "-";
    if (typeof value !== "number") return String(value);
    if (unit === "bytes") return value < 1024 ? `${value} B` : scaled(value, 1024, ["KiB", "MiB", "GiB", "TiB"]);
    if (unit === "s") return value >= 1 ? `${value.toFixed(2)} s` : `${(value * 1000).toFixed(1)} ms`;
    if (unit === "tolerances") return `${value.toPrecision(3)} times the tolerance`;
    return Math.round(value).toLocaleString("en");
  };

  const cell = (row, text, tag = "td", kind = "") => {
    const made = document.createElement(tag);
    made.textContent = text;
    if (kind) made.className = kind;
    if (tag === "th") made.scope = "row";
    row.append(made);
    return made;
  };

  // As the report judges: what an oracle says, and a difference of at least a size and a share of the first value.
  const matters = (x, y, metric) => {
    if (typeof x !== "number" || typeof y !== "number") return true;
    if (metric.direction === "AT_MOST_ONE") return (x > 1) !== (y > 1);
    return Math.abs(y - x) >= Math.max(metric.floor, metric.share * Math.abs(x));
  };

  const lines = (a, b, what, text) => {
    const found = [];
    for (const workload of Object.keys(b)) {
      if (!(workload in a) || !workload.toLowerCase().includes(text)) continue;
      const [old, now] = [a[workload], b[workload]];
      if (old.outcome !== now.outcome) found.push({ workload, title: "outcome", old: old.outcome, now: now.outcome, size: Infinity });
      const [before, after] = [{ ...old.exact, ...old.noisy }, { ...now.exact, ...now.noisy }];
      for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
        const [phase, metric] = name.includes(".") ? name.split(".") : ["", name];
        const known = metrics.get(metric) || { title: metric, unit: "", direction: "NEUTRAL", floor: 0, share: 0 };
        const { title, unit, direction } = known;
        const [x, y] = [before[name], after[name]];
        const same = x === y;
        if (what !== "all" && (same || (!what && !matters(x, y, known)))) continue;
        const size = typeof x === "number" && typeof y === "number" && x ? Math.abs(y / x - 1) : same ? 0 : 1;
        const ratio = typeof x === "number" && typeof y === "number" && x ? `${(y / x).toPrecision(3)}x` : "-";
        const word = direction === "NEUTRAL" || same || typeof x !== "number" || typeof y !== "number" ? "" : y > x ? "more" : "less";
        found.push({ workload, title: phase ? `${phase}: ${title}` : title, old: shown(x, unit), now: shown(y, unit), ratio, word, size });
      }
    }
    return found.sort((one, other) => other.size - one.size);
  };

  const show = async () => {
    const [from, to] = [files[field("a").value], files[field("b").value]];
    const count = form.querySelector("[data-count]");
    let a, b;
    try { [a, b] = await Promise.all([load(from[1]), load(to[1])]); } catch { count.textContent = "the figures could not be read"; return; }
    const found = lines(a, b, field("what").value, field("text").value.trim().toLowerCase());
    count.textContent = found.length > MOST ? `the largest ${MOST} of ${found.length} lines` : `${found.length} lines`;
    const table = document.createElement("table");
    table.createCaption().textContent = `${to[0]} against ${from[0]}: worst rank, largest difference first. Times are raw, and comparable within one session only.`;
    const head = table.createTHead().insertRow();
    for (const title of ["Metric", from[0], to[0], "Ratio", "", "Workload"]) {
      const th = cell(head, title || "Direction", "th");
      th.scope = "col";
    }
    const body = table.createTBody();
    for (const line of found.slice(0, MOST)) {
      const row = body.insertRow();
      cell(row, line.title, "th");
      cell(row, line.old, "td", "n");
      cell(row, line.now, "td", "n");
      cell(row, line.ratio || "-", "td", "n");
      cell(row, line.word || "", "td", line.word ? (line.word === "more" ? "k-regression" : "k-improvement") : "");
      cell(row, line.workload, "td", "where");
    }
    const region = document.createElement("div");
    region.className = "scroll";
    region.tabIndex = 0;
    region.setAttribute("role", "region");
    region.setAttribute("aria-label", "Comparison");
    region.append(table);
    place.replaceChildren(region);
  };

  // A link names the stacks: "#a=0.16.8&b=0.19.8".
  const asked = window.dsregressChoices.read();
  for (const side of ["a", "b"]) {
    const option = [...field(side).options].find((one) => one.textContent === asked.get(side));
    if (option) field(side).value = option.value;
  }
  for (const name of ["text", "what"]) if (asked.has(name)) field(name).value = asked.get(name);
  const remember = () => {
    const sides = ["a", "b"].map((side) => [side, field(side).selectedOptions[0].textContent]);
    window.dsregressChoices.write([...sides, ...["text", "what"].map((name) => [name, field(name).value])]);
  };

  form.hidden = false;
  form.addEventListener("input", () => { show(); remember(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
})();
