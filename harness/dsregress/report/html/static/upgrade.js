// "May I upgrade?": shows the answer of audit.js for the job that the reader states.
"use strict";
(() => {
  const form = document.querySelector("[data-upgrade]");
  if (!form) return;
  const place = document.querySelector("[data-answer]");
  const fields = [...form.querySelectorAll("[data-choice]")];
  const field = (name) => form.querySelector(`[data-choice="${name}"]`);

  const made = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  // The color alone says no more than the headline: green is a yes that rests on all that was run.
  const KINDS = { yes: "k-ok", "if set": "k-changed", no: "k-wrong", unknown: "k-unjudged" };

  // An advisory as a link, with what it depends on and the remedies.
  const line = (one, remedies = []) => {
    const item = made("li", "");
    const { id, title, page, sees } = one.advisory;
    item.append(made("a", `${id} ${title}`, { href: form.dataset.root + page }));
    const open = [...one.open.map((each) => each.text), ...one.packages.map((name) => `some releases of ${name}`)];
    if (open.length) item.append(`, with ${open.join(", ")}`);
    if (sees) item.append(made("small", ` ${sees}`));
    if (remedies.length) item.append(` Remedy: ${remedies.map((each) => each.request).join("; or ")}.`);
    return item;
  };
  const question = (one) => made("li", `${one.text}: ${one.matched.map((each) => each.advisory.id).join(", ")}`);
  const sections = (answer) => [
    ["Cannot be installed together", answer.conflicts.map((one) => made("li", one.text))],
    ["Against it", answer.against.map((one) => line(one, one.advisory.remedies.filter((each) => each.package)))],
    ["Usual, and not stated", answer.usual.map((one) => line(one, one.advisory.remedies.filter((each) => each.package)))],
    ["To set", answer.conditions.map((one) => line(one.matched, one.remedies))],
    ["Not stated", answer.questions.map(question)],
    ["Changes", answer.changes.map((one) => line(one))],
    ["Gained", answer.gained.filter((one) => one.match === "concerned").map((one) => line(one))],
    ["In both, and not ended by it", answer.kept.map((one) => line(one))],
    ["Not stated, and in both", answer.keptQuestions.map(question)],
    ["Skip on the way", answer.skipped.map((one) => made("li", `${one.package} ${one.releases.join(", ")}: ${one.advisory.id} ${one.advisory.title}`))],
    ["Not run", answer.notRun.map((one) => made("li", `${one.notRun.join(", ")}: ${one.advisory.id} ${one.advisory.title}`))],
  ];
  const show = (answer, command) => {
    const head = made("p", answer.headline, { class: `big mark ${KINDS[answer.shown]}` });
    const parts = [head];
    for (const [title, lines] of sections(answer)) {
      if (!lines.length) continue;
      const list = made("ul", "");
      list.append(...lines);
      parts.push(made("h3", title), list);
    }
    const block = made("pre", "");
    block.append(made("code", command));
    parts.push(block);
    place.replaceChildren(...parts);
  };

  // The releases that a field of text names.
  const pinned = (name) => {
    const found = [...field(name).value.matchAll(/([\w.-]+)\s*==\s*([^\s;,]+)/g)];
    return Object.fromEntries(found.map(([, one, version]) => [one.toLowerCase().replace(/[-_.]+/g, "-"), version]));
  };
  // What the form says: releases of packages, and values of facts in JSON.
  const stated = () => {
    const versions = { ...pinned("beside"), [form.dataset.package]: field("from").value };
    const facts = fields.filter((one) => "fact" in one.dataset && one.value);
    return { versions, facts: Object.fromEntries(facts.map((one) => [one.dataset.choice, JSON.parse(one.value)])), to: { ...pinned("others"), [form.dataset.package]: field("to").value } };
  };
  const said = (value) => (value === null ? "unset" : value === true ? "yes" : value === false ? "no" : String(value));
  const commandOf = (job) => {
    const goals = Object.entries(job.to).filter(([name, release]) => job.versions[name] !== release);
    const facts = Object.entries(job.facts).map(([fact, value]) => ` --set ${fact}=${said(value)}`);
    return `dsregress audit -r requirements.txt${goals.map(([name, release]) => ` --to ${name}==${release}`).join("")}${facts.join("")}`;
  };

  window.dsregressUpgrade = (data) => {
    const answerOf = (job) => globalThis.dsregressAudit.upgrade(data, job, job.to);
    window.dsregressAnswer = answerOf;
    const chosen = window.dsregressChoices.read();
    for (const one of fields) {
      const text = chosen.get(one.dataset.choice);
      if (text === null) continue;
      const option = one.options && [...one.options].find((each) => each.value === text || each.textContent === text);
      if (option) one.value = option.value;
      else if (!one.options) one.value = text;
    }
    const answer = () => {
      const job = stated();
      show(answerOf(job), commandOf(job));
    };
    form.hidden = false;
    answer();
    form.addEventListener("input", () => {
      answer();
      window.dsregressChoices.write(fields.map((one) => [one.dataset.choice, one.value]));
    });
    form.addEventListener("submit", (event) => event.preventDefault());
  };
  window.dsregressLoad(form.dataset.upgrade);
})();
