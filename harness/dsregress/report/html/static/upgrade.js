// "May I upgrade?": answers from the site's data, by the rule of `dsregress upgrade`.
"use strict";
(() => {
  const form = document.querySelector("[data-upgrade]");
  if (!form) return;
  const place = document.querySelector("[data-answer]");
  const fields = [...form.querySelectorAll("[data-choice]")];
  const GIB = 1024 ** 3;

  // The rule, apart from the page: `choice` has from, to (places in data.releases), card, and the said factors.
  const answer = (data, choice) => {
    const alike = data.workloads.map((own) => Object.entries(choice.factors).every(([title, value]) => own.said[title] === value));
    const judged = (stack, at) => data.workloads[at].ran[stack] === "c";
    const room = (own, stack) => {
      const card = choice.card || own.card;
      if (!card || own.needs.length === 0 || own.needs[stack] === null) return null;
      return data.cards[card] * (1 - own.share) - data.overhead - own.needs[stack];
    };
    const has = (problem, at, stack) => (problem.on[at] || []).includes(stack);
    const judge = (to) => {
      const places = alike.flatMap((is, at) => (is ? [at] : []));
      const met = data.problems.filter((problem) => places.some((at) => has(problem, at, to) && !has(problem, at, choice.from)));
      const kept = data.problems.filter((problem) => !problem.is_cost && places.some((at) => has(problem, at, to) && has(problem, at, choice.from)));
      const either = places.filter((at) => [to, choice.from].some((stack) => data.workloads[at].ran[stack] !== "-"));
      const compared = places.filter((at) => judged(to, at) && judged(choice.from, at));
      const lost = compared.flatMap((at) => {
        const own = data.workloads[at];
        const [before, after] = [room(own, choice.from), room(own, to)];
        return before !== null && after !== null && before >= 0 && after < 0 ? [{ own, lacks: -after }] : [];
      });
      const grave = met.filter((problem) => !problem.is_cost);
      const against = grave.filter((problem) => !problem.setting && problem.kind !== "UNTESTABLE");
      const settings = [...new Set(grave.filter((problem) => problem.setting).map((problem) => problem.setting))];
      const untested = met.some((problem) => problem.kind === "UNTESTABLE");
      let verdict = settings.length ? "if" : "yes";
      if (untested || compared.length === 0) verdict = "unknown";
      if (lost.length || against.length) verdict = "no";
      return { verdict, met, kept, lost, settings, against, compared: compared.length, of: either.length, untested };
    };
    const found = judge(choice.to);
    if (found.verdict === "no" && !found.against.some((problem) => problem.is_intermittent)) {
      // A release to name instead is a yes, and has nothing grave where the other has, whether it is new or not.
      const spoiled = new Set(found.lost.map(({ own }) => data.workloads.indexOf(own)));
      for (const problem of found.against) for (const at of Object.keys(problem.on)) if (alike[at]) spoiled.add(Number(at));
      const isGrave = (problem) => !problem.is_cost && !problem.setting;
      const isSound = (stack) => {
        const measured = [...spoiled].filter((at) => data.workloads[at].ran[stack] !== "-");
        const own = judge(stack);
        return (own.verdict === "yes" || own.verdict === "if") && measured.length > 0 && measured.every((at) =>
          judged(stack, at) && (room(data.workloads[at], stack) ?? 0) >= 0 && !data.problems.some((problem) => isGrave(problem) && has(problem, at, stack)));
      };
      const [low, high] = [Math.min(choice.from, choice.to), Math.max(choice.from, choice.to)];
      const newer = data.releases.map((_, at) => at).filter((at) => at > high);
      const between = data.releases.map((_, at) => at).filter((at) => at > low && at < high).reverse();
      const instead = [...newer, ...between].find(isSound);
      if (instead !== undefined) found.instead = { at: instead, settings: judge(instead).settings };
    }
    return { ...found, left: alike.filter((is) => !is).length };
  };

  const made = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const SIGNS = { yes: ["✓", "k-ok"], if: ["≠", "k-changed"], no: ["✕", "k-wrong"], unknown: ["?", "k-unjudged"] };
  const set = (settings) => settings.join(" and ");

  const sentence = (data, choice, found) => {
    if (choice.from === choice.to) return "It is the same release.";
    if (found.verdict === "yes") return "Yes.";
    if (found.verdict === "if") return `Yes, if you set ${set(found.settings)}.`;
    if (found.verdict === "unknown") return found.untested ? "Not known: it cannot be tested here." : "Not known: no workload like yours could be compared in both.";
    const stay = `No, stay at ${data.releases[choice.from].name}`;
    if (!found.instead) return `${stay}.`;
    const to = `${stay} or go to ${data.releases[found.instead.at].name}`;
    return found.instead.settings.length ? `${to} and set ${set(found.instead.settings)}.` : `${to}.`;
  };

  const show = (data, choice) => {
    const found = answer(data, choice);
    const [from, to] = [data.releases[choice.from], data.releases[choice.to]];
    const same = choice.from === choice.to;
    const [sign, kind] = SIGNS[same ? "yes" : found.verdict];
    const head = made("p", "", { class: "big" });
    const mark = made("span", "", { class: `mark ${kind}` });
    mark.append(made("span", sign, { "aria-hidden": "true" }), ` ${sentence(data, choice, found)}`);
    head.append(`${from.name} → ${to.name}: `, mark);
    const parts = [head];
    const titles = new Map();
    const under = (title) => {
      if (!titles.has(title)) titles.set(title, made("ul", ""));
      return titles.get(title);
    };
    if (!same) {
      for (const { own, lacks } of found.lost) {
        const line = made("li", "");
        line.append(made("a", own.name, { href: own.page }), `: no longer fits ${choice.card || own.card}, lacks ${(lacks / GIB).toPrecision(3)} GiB`);
        under("Out of memory").append(line);
      }
      for (const problem of found.met) {
        const line = made("li", `${problem.text} `);
        line.append(made("small", `since ${problem.since}, until ${problem.until}`));
        line.append(" ", made("a", "Conditions, cause, script", { href: problem.page }));
        under(problem.title).append(line);
      }
    }
    for (const [title, list] of titles) parts.push(made("h3", title), list);
    if (!same && found.kept.length) {
      const both = made("details", "");
      const list = made("ul", "");
      for (const problem of found.kept) list.append(made("li", problem.text));
      both.append(made("summary", `In both releases (${found.kept.length})`), list);
      parts.push(both);
    }
    const left = found.left ? `; ${found.left} of another kind of training, or of one that is not said, left out` : "";
    if (choice.to < choice.from) parts.push(made("p", "What the newer release does better than the report's baseline is not weighed here; the command does."));
    parts.push(made("p", `${found.compared} of ${found.of} workloads compared${left}.`));
    if (data.command && !same) {
      const block = made("pre", "");
      block.append(made("code", data.command.replace(/FROM|TO/g, (word) => (word === "FROM" ? from : to).argument)));
      parts.push(block);
    }
    place.replaceChildren(...parts);
  };

  const chosen = () => {
    const value = (name) => form.querySelector(`[data-choice="${name}"]`);
    const factors = {};
    for (const field of fields) if (field.dataset.factor && field.value) factors[field.dataset.factor] = field.value;
    const card = value("card");
    return { from: Number(value("from").value), to: Number(value("to").value), card: card ? card.value : "", factors };
  };

  window.dsregressUpgrade = (data) => {
    window.dsregressAnswer = (choice) => answer(data, choice);
    const asked = window.dsregressChoices.read();
    for (const field of fields) {
      const name = field.dataset.choice;
      const text = asked.get(name);
      if (text === null) continue;
      const option = [...field.options].find((one) => one.value === text || one.textContent === text);
      if (option) field.value = option.value;
    }
    form.hidden = false;
    show(data, chosen());
    form.addEventListener("input", () => {
      show(data, chosen());
      window.dsregressChoices.write(fields.map((field) => [field.dataset.choice, field.matches("[data-release]") ? field.selectedOptions[0].textContent : field.value]));
    });
    form.addEventListener("submit", (event) => event.preventDefault());
  };
  window.dsregressLoad(form.dataset.upgrade);
})();
