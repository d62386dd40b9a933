// Puts a job to the advisories, as `dsregress audit` does: by the rules of dsregress.advisories and the words of
// dsregress.report.verdict_words, on the data that dsregress.report.html.audit_data writes.
"use strict";
globalThis.dsregressAudit = (() => {
  // Versions

  const parsed = (() => {
    const known = new Map();
    return (text) => {
      if (!known.has(text)) {
        const [, numbers, rest] = /^v?(\d+(?:\.\d+)*)(.*)$/.exec(text) || [null, "0", ""];
        const pre = /^[._-]?(a|b|rc)(\d*)/.exec(rest);
        const post = /[._-]?post(\d*)/.exec(rest);
        const dev = /[._-]?dev(\d*)/.exec(rest);
        const stage = pre ? ["a", "b", "rc"].indexOf(pre[1]) : dev && !post ? -1 : 3;
        known.set(text, [numbers.split(".").map(Number), [stage, Number(pre?.[2] || 0), post ? Number(post[1] || 0) : -1, dev ? Number(dev[1] || 0) : Infinity]]);
      }
      return known.get(text);
    };
  })();
  const compared = (one, other) => {
    const [[a, aRest], [b, bRest]] = [parsed(one), parsed(other)];
    for (let at = 0; at < Math.max(a.length, b.length); at++) if ((a[at] || 0) !== (b[at] || 0)) return (a[at] || 0) - (b[at] || 0);
    for (let at = 0; at < aRest.length; at++) if (aRest[at] !== bRest[at]) return aRest[at] < bRest[at] ? -1 : 1;
    return 0;
  };
  const beside = (version, affected, unaffected) => {
    const ran = new Map([...affected.map((one) => [one, true]), ...unaffected.map((one) => [one, false])]);
    let [older, newer] = [null, null];
    for (const one of ran.keys()) {
      if (compared(one, version) <= 0 && (older === null || compared(one, older) > 0)) older = one;
      if (compared(one, version) >= 0 && (newer === null || compared(one, newer) < 0)) newer = one;
    }
    return [older === null ? null : ran.get(older), newer === null ? null : ran.get(newer)];
  };
  const isAffected = (version, affected, unaffected) => {
    const [older, newer] = beside(version, affected, unaffected);
    return older === newer ? older : null;
  };

  // What releases require of each other, as dsregress.versions.declared_requirements

  const specifier = /^(===|==|~=|!=|<=|>=|<|>)\s*(.+)$/;
  const isIn = (version, text) => {
    const [, operator, other] = specifier.exec(text.trim());
    const series = other.replace(/\.\*$/, "").split(".").map(Number);
    const isOfSeries = (count) => series.slice(0, count).every((number, at) => (parsed(version)[0][at] || 0) === number);
    const order = compared(version, other.replace(/\.\*$/, ""));
    if (operator === "~=") return order >= 0 && isOfSeries(series.length - 1);
    const isEqual = other.endsWith(".*") ? isOfSeries(series.length) : order === 0;
    return { "===": isEqual, "==": isEqual, "!=": !isEqual, "<=": order <= 0, ">=": order >= 0, "<": order < 0, ">": order > 0 }[operator];
  };
  const isRelease = (text) => /^v?\d+(\.\d+)+/.test(text); // and no commit
  const declaredBy = (data, name, version) => {
    const known = data.requirements[name] || {};
    const release = version.split("+")[0];
    return known[release] || known[isRelease(release) && Object.keys(known).find((one) => compared(one, release) === 0)] || [];
  };
  const requirementsOf = (data, name, version) => [
    ...declaredBy(data, name, version).map((one) => [one, "requires"]),
    ...data.bounds.filter((one) => isRelease(version) && one.package === name && one.releases.split(",").every((limit) => isIn(version, limit)))
      .map((one) => [one.other + one.versions, "runs only with"]),
  ];
  const conflictsOf = (data, versions) => Object.entries(versions).flatMap(([name, version]) =>
    requirementsOf(data, name, version).flatMap(([requirement, verb]) => {
      const [, other, limits] = /^([\w-]+)(.*)$/.exec(requirement);
      const isFitting = (one) => limits.split(",").every((limit) => isIn(one, limit));
      if (!isRelease(versions[other] || "") || isFitting(versions[other])) return [];
      const text = `${name} ${version} ${verb} ${requirement}, not ${versions[other]}`;
      return [{ package: name, version, requirement, other, otherVersion: versions[other], isFitting, text }];
    }));
  const releasesOf = (data, name) => Object.keys(data.requirements[name] || {}).concat(data.releases[name] || []).sort(compared);
  const endingReleases = (data, conflicts, old, now) => {
    const lifted = new Map();
    const rest = conflicts.filter((one) => {
      if (old[one.other] === now[one.other] || old[one.package] !== one.version) return true;
      const newer = releasesOf(data, one.package).find((release) => compared(release, one.version) > 0 &&
        !conflictsOf(data, { ...now, [one.package]: release }).some((each) => [each.package, each.other].includes(one.package)));
      if (newer) lifted.set(one.package, newer);
      return !newer;
    });
    const found = unique(rest.map((one) => one.other)).map((other) => {
      const ones = rest.filter((one) => one.other === other);
      const known = releasesOf(data, other);
      const fitting = known.filter((release) => ones.every((one) => one.isFitting(release)));
      return [other, fitting.find((release) => compared(release, ones[0].otherVersion) > 0) || fitting.at(-1)];
    });
    return found.every(([, release]) => release) ? [...lifted, ...found] : [];
  };
  const newConflicts = (data, old, now) => {
    const keyOf = (one) => [one.package, one.version, one.requirement].join();
    const before = new Set(conflictsOf(data, old).map(keyOf));
    return conflictsOf(data, now).filter((one) => !before.has(keyOf(one)));
  };

  // Facts: a value, or {one_of: values}

  const isNumber = (value) => typeof value === "number";
  const valuesOf = (value) => (value !== null && typeof value === "object" ? value.one_of : [value]);
  const standIn = (data, fact, value) => {
    const found = data.stand_ins[fact];
    if (!found || !isNumber(value)) return value;
    return (found.absent || []).includes(value) ? null : value > 0 ? found.positive : value;
  };
  const chosenValue = (data, fact, job) => {
    const [value, chosen] = [job.facts[fact], data.chosen[fact]];
    if (!chosen || value === null || typeof value !== "object" || [...value.one_of].sort().join() !== [...chosen.among].sort().join()) return value;
    const isOf = ({ facts, packages }) => Object.entries(facts).every(([name, values]) => values.includes(job.facts[name])) &&
      Object.entries(packages).every(([name, limits]) => name in job.versions && limits.split(",").every((limit) => isIn(job.versions[name], limit)));
    return chosen.by.find(isOf)?.value ?? value;
  };
  const withConsequences = (data, facts) => {
    const found = { ...facts };
    for (let before = -1; before < Object.keys(found).length; ) {
      before = Object.keys(found).length;
      for (const { fact, of, but, then, same } of data.consequences) {
        if (!(fact in found)) continue;
        const followFrom = (value) => {
          if (of ? !of.includes(value) : (but || []).includes(value)) return {};
          return { ...then, ...Object.fromEntries(same.map((other) => [other, value])) };
        };
        const [follows, ...others] = valuesOf(found[fact]).map(followFrom);
        if (!follows || others.some((one) => JSON.stringify(one) !== JSON.stringify(follows))) continue;
        for (const [other, own] of Object.entries(follows)) if (!(other in found)) found[other] = own;
      }
    }
    return found;
  };
  const nearest = (condition, value) => {
    const ran = new Map([...condition.shown.map((one) => [one, true]), ...condition.hidden.map((one) => [one, false])]);
    const numbers = [...ran.keys()].filter(isNumber);
    const fewer = Math.max(...numbers.filter((one) => one < value));
    const more = Math.min(...numbers.filter((one) => one > value));
    if (fewer === -Infinity || (more !== Infinity && ran.get(fewer) !== ran.get(more))) return null;
    return ran.get(fewer);
  };
  const shows = (data, condition, value) => {
    for (const tried of [value, standIn(data, condition.fact, value)]) {
      if (condition.shown.includes(tried)) return true;
      if (condition.hidden.includes(tried)) return false;
      if (condition.unknown.includes(tried)) return null;
    }
    if (condition.others) return true;
    if (condition.above !== null && isNumber(value)) return value > condition.above;
    return isNumber(value) && data.facts[condition.fact]?.counted ? nearest(condition, value) : null;
  };

  // Words

  const listing = (names, most = 6) => names.slice(0, most).join(", ") + (names.length > most ? ` and ${names.length - most} more` : "");
  const joined = (names, word) => (names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} ${word} ${names.at(-1)}`);
  const plural = (count, one, many) => `${count} ${count === 1 ? one : many || `${one}s`}`;
  const unique = (values) => [...new Set(values)];
  const valueText = (data, fact, values) => {
    const { title, noun, words } = data.facts[fact] || { title: fact, noun: fact, words: [] };
    const word = new Map(words);
    const named = values.filter((one) => word.has(one)).map((one) => word.get(one));
    const unset = values.includes(null) && !word.has(null) ? [`${noun} not configured`] : [];
    const others = values.filter((one) => !word.has(one) && one !== null).map((one) => (one === true ? "on" : one === false ? "off" : String(one)));
    return joined([...named, ...unset, ...(others.length ? [`${title} ${joined(others, "or")}`] : [])], "or");
  };

  // One advisory

  const part = () => ({ free: false, open: [], packages: [], notRun: [], isRemote: false });
  const add = (whole, other) => {
    whole.free ||= other.free;
    whole.open.push(...other.open);
    whole.packages.push(...other.packages);
    whole.notRun.push(...other.notRun);
    whole.isRemote ||= other.isRemote;
    return whole;
  };
  const matchOf = (own) => (own.free ? "free" : own.notRun.length ? "unknown" : own.open.length || own.packages.length ? "depends" : "concerned");
  const factPart = (data, condition, job) => {
    const own = part();
    if (!(condition.fact in job.facts)) return { ...own, open: [condition] };
    const answers = valuesOf(chosenValue(data, condition.fact, job)).map((value) => [value, shows(data, condition, value)]);
    if (!answers.some(([, answer]) => answer === true)) {
      const notRun = answers.filter(([, answer]) => answer === null).map(([value]) => value);
      own.isRemote = notRun.length > 0;
      own.free = !own.isRemote;
      if (own.isRemote) own.notRun.push(valueText(data, condition.fact, notRun));
    } else if (answers.some(([, answer]) => answer !== true)) own.open.push(condition);
    return own;
  };
  const releasePart = (data, { package: name, affected, unaffected }, job) => {
    const own = part();
    const version = job.versions[name];
    const isOtherFramework = data.frameworks.includes(name) && !valuesOf(job.facts.framework).includes(name);
    if (version === undefined && (isOtherFramework || job.facts[name] === false)) return { ...own, free: true };
    if (version === undefined) return { ...own, packages: [name] };
    const answer = isAffected(version, affected, unaffected);
    if (answer === null) {
      own.notRun.push(`${name} ${version}`);
      own.isRemote = !beside(version, affected, unaffected).includes(true);
    }
    own.free = answer === false;
    return own;
  };
  const anyOf = (parts) => {
    for (const match of ["concerned", "depends", "unknown"]) {
      const found = parts.filter((one) => matchOf(one) === match);
      if (found.length) return match === "concerned" ? found[0] : found.reduce(add, part());
    }
    return { ...part(), free: true };
  };
  const matched = (data, advisory, job) => {
    const whole = part();
    for (const condition of advisory.conditions) add(whole, factPart(data, condition, job));
    if (!whole.free) {
      add(whole, anyOf(advisory.ranges.map((one) => releasePart(data, one, job))));
      for (const partner of advisory.partners) add(whole, releasePart(data, partner, job));
    }
    const match = matchOf(whole);
    if (whole.free) return { advisory, match, open: [], packages: [], notRun: [], besideAffected: false };
    return { advisory, match, open: whole.open, packages: unique(whole.packages), notRun: unique(whole.notRun), besideAffected: match === "unknown" && !whole.isRemote };
  };
  const matchFacts = (data, advisory, job) => {
    const whole = part();
    for (const condition of advisory.conditions) add(whole, factPart(data, condition, job));
    for (const name of packagesOf(advisory)) if (!(name in job.versions)) whole.packages.push(name);
    return matchOf(whole);
  };
  const packagesOf = (advisory) => [...advisory.ranges, ...advisory.partners].map((one) => one.package);
  const matchAll = (data, job) => data.advisories.map((one) => matched(data, one, job));
  const changed = (data, job, versions, facts = {}) => ({ versions: { ...job.versions, ...versions }, facts: { ...job.facts, ...facts } });

  // An upgrade

  const isNew = (one, before) => {
    const earlier = before.get(one.advisory.id).match;
    if (one.match === "concerned") return earlier !== "concerned";
    return one.match === "depends" ? ["free", "unknown"].includes(earlier) : earlier === "free";
  };
  const isNewlyUnknown = (one, before) => {
    const earlier = before.get(one.advisory.id);
    return one.match === "unknown" && earlier.notRun.join() !== one.notRun.join();
  };
  const withRemedy = (data, job, remedy) => {
    if (remedy.package) return remedy.package in job.versions && remedy.version ? changed(data, job, { [remedy.package]: remedy.version }) : null;
    return remedy.fact ? changed(data, job, {}, { [remedy.fact]: remedy.value }) : null;
  };
  const isInstallable = (data, job, remedy) => {
    const tried = remedy.package ? withRemedy(data, job, remedy) : null;
    return tried === null || !newConflicts(data, job.versions, tried.versions).length;
  };
  const isEnding = (data, advisory, job, remedy) => {
    const tried = withRemedy(data, job, remedy);
    return tried !== null && isInstallable(data, job, remedy) && matched(data, advisory, tried).match === "free";
  };
  const newerRemedies = (advisories, remedy) => !remedy.version ? [] : knownVersions(advisories, remedy.package)
    .filter((version) => compared(version, remedy.version) > 0)
    .map((version) => ({ ...remedy, version, request: remedy.request.replaceAll(remedy.version, version) }));
  // 2: it brings the job another fault; 1: it may bring a grave one
  const broughtBy = (data, job, remedy, before) => {
    const brought = matchAll(data, withRemedy(data, job, remedy)).filter((one) => one.advisory.decides && isNew(one, before));
    const concerned = brought.filter((one) => one.match === "concerned");
    if (concerned.length) return concerned.some((one) => one.advisory.is_fault) ? 3 : 2;
    const isCommon = (one) => !one.packages.length && one.open.every((each) => data.common.includes(each.fact));
    return brought.some((one) => one.match === "depends" && one.advisory.is_grave && isCommon(one)) ? 1 : 0;
  };
  const endingRemedies = (data, one, job, old) => {
    const moved = (name) => old.versions[name] !== job.versions[name];
    const installable = (remedy) => [remedy, ...newerRemedies([one.advisory], remedy)].find((each) => isInstallable(data, job, each)) || remedy;
    return one.advisory.remedies.filter((remedy) => !(remedy.package && moved(remedy.package))).map(installable)
      .filter((remedy) => isEnding(data, one.advisory, job, remedy));
  };
  const isSame = (one, other) => one.package || other.package
    ? one.package === other.package && one.version === other.version : one.fact === other.fact && one.value === other.value;
  const chosenRemedies = (data, one, job, ending) => {
    const before = new Map(matchAll(data, job).map((each) => [each.advisory.id, each]));
    const found = ending.map((remedy) => {
      let [best, brought] = [remedy, broughtBy(data, job, remedy, before)];
      for (const newer of brought ? newerRemedies(data.advisories, remedy) : []) {
        const less = isEnding(data, one.advisory, job, newer) ? broughtBy(data, job, newer, before) : brought;
        if (less < brought) [best, brought] = [newer, less];
      }
      return { best, brought };
    }).filter((one, at, all) => all.findIndex((each) => isSame(each.best, one.best)) === at);
    const sound = found.some((each) => each.brought < 3) ? found.filter((each) => each.brought < 3) : found;
    return [...sound.filter((each) => each.brought < 2), ...sound.filter((each) => each.brought >= 2)].map((each) => each.best);
  };
  const alignedConditions = (data, conditions, job) => {
    const ended = conditions.filter((one) => one.remedies.length);
    const releases = ended.flatMap((one) => one.remedies).filter((one) => one.version);
    for (const name of ended.length > 1 ? unique(releases.map((one) => one.package)) : []) {
      if (!ended.every((one) => one.remedies.some((each) => each.package === name && each.version))) continue;
      const newest = releases.filter((one) => one.package === name).reduce((a, b) => (compared(b.version, a.version) > 0 ? b : a));
      if (!ended.every((one) => isEnding(data, one.matched.advisory, job, newest))) continue;
      for (const one of ended) one.remedies = one.remedies.map((each) => (each.package === name ? newest : each));
    }
    return conditions;
  };
  const knownVersions = (advisories, name) => {
    const ranges = advisories.flatMap((one) => one.ranges).filter((one) => one.package === name);
    return unique(ranges.flatMap((one) => [...one.affected, ...one.unaffected])).sort(compared);
  };
  const isBeyond = (data, old, now) => Object.entries(now.versions).some(([name, version]) => {
    const known = knownVersions(data.advisories, name);
    return old.versions[name] !== version && known.length > 0 && compared(version, known.at(-1)) > 0;
  });
  const unlistedReleases = (data, versions, names) => names.filter((name) => {
    const listed = releasesOf(data, name);
    const release = versions[name].replace(/^v/, "").split("+")[0].replace(/\.post\d+$/, "");
    return listed.length && /^\d+(\.\d+)*$/.test(release) && compared(release, listed[0]) >= 0 &&
      ![...listed, ...(data.yanked[name] || [])].some((one) => compared(one, release) === 0) &&
      !knownVersions(data.advisories, name).some((one) => compared(one, versions[name]) === 0);
  }).map((name) => `${name} ${versions[name]}`);
  const olderThanRun = (data, versions) => {
    const minor = (version) => parsed(version)[0].slice(0, 2).join(".");
    const isOlder = ([name, oldest]) => name in versions && compared(minor(versions[name]), minor(oldest)) < 0;
    return Object.entries(data.oldest_run).filter(isOlder).map(([name]) => `${name} ${versions[name]}`);
  };
  const coverage = (data, job, name) => {
    const about = data.advisories.filter((one) => packagesOf(one).includes(name));
    const isRare = (one) => !one.conditions.some((each) => data.common.includes(each.fact) || each.fact in job.facts);
    const found = about.map((one) => (!one.conditions.length ? "depends" : isRare(one) ? "free" : matchFacts(data, one, job)));
    return found.includes("concerned") ? "concerned" : found.some((match) => match !== "free") ? "depends" : "free";
  };
  const hingesOf = (data, depends) => {
    const deciding = depends.filter((one) => one.advisory.decides && one.open.length === 1 && !one.packages.length);
    return unique(deciding.map((one) => one.open[0].fact)).flatMap((fact) => {
      const found = deciding.filter((one) => one.open[0].fact === fact);
      const answers = data.facts[fact].values.map((value) => found.map((one) => shows(data, one.open[0], value)));
      const isFree = answers.some((one) => one.every((answer) => answer === false));
      return !isFree && answers.filter((one) => one.includes(true)).length > 1 ? found : [];
    });
  };
  const usuallyConcerns = (data, one, job) => {
    const isUsual = (condition) => {
      const has = (name) => name in job.versions;
      const usual = (data.usual[condition.fact] || []).find((each) => each.beside.every(has) && !each.unless.some(has));
      if (!usual) return false;
      const values = condition.fact in job.facts ? usual.values.filter((value) => valuesOf(chosenValue(data, condition.fact, job)).includes(value)) : usual.values;
      return values.length > 0 && values.every((value) => shows(data, condition, value) === true);
    };
    return one.match === "depends" && !one.packages.length && one.advisory.decides && one.advisory.is_grave && one.open.every(isUsual);
  };
  const judged = (data, old, now, earlier) => {
    const before = new Map(earlier.map((one) => [one.advisory.id, one]));
    const after = matchAll(data, now);
    const concerned = after.filter((one) => one.match === "concerned");
    const [against, conditions, kept] = [[], [], []];
    for (const one of concerned.filter(({ advisory }) => advisory.decides)) {
      const isNewHere = before.get(one.advisory.id).match !== "concerned";
      const remedies = endingRemedies(data, one, now, old).filter((remedy) => !remedy.is_another_job);
      if ((remedies.length && (isNewHere || one.advisory.ends_the_job)) || (one.advisory.is_leak && isNewHere)) conditions.push({ matched: one, remedies });
      else if (isNewHere && !one.advisory.is_default) against.push(one);
      else if (one.advisory.is_fault) kept.push(one);
    }
    const usual = [];
    for (const one of after.filter((each) => isNew(each, before) && usuallyConcerns(data, each, now))) {
      const remedies = endingRemedies(data, one, now, old).filter((remedy) => !remedy.is_another_job);
      if (remedies.length) conditions.push({ matched: one, remedies });
      else usual.push(one);
    }
    const named = new Set([...against, ...kept, ...conditions.map((one) => one.matched)].map((one) => one.advisory.id));
    const others = concerned.filter((one) => !named.has(one.advisory.id) && isNew(one, before));
    const open = after.filter((one) => ["depends", "unknown"].includes(one.match) && isNew(one, before));
    const moved = Object.keys(now.versions).filter((name) => old.versions[name] !== now.versions[name]);
    const covers = moved.map((name) => coverage(data, now, name));
    const uncovered = moved.filter((name, at) => covers[at] === "free");
    const used = Object.keys(now.versions).filter((name) => now.facts[name] !== false);
    const covered = used.filter((name) => moved.length && coverage(data, now, name) !== "free");
    covered.sort((one, other) => moved.includes(other) - moved.includes(one));
    const unlisted = unlistedReleases(data, now.versions, covered);
    const beyond = isBeyond(data, old, now);
    const isOpenHere = (one) => isNew(one, before) || (isNewlyUnknown(one, before) && one.besideAffected);
    const unknown = after.filter((one) => one.match === "unknown" && isOpenHere(one) && one.advisory.decides && (beyond || !(one.open.length || one.packages.length)));
    const isKnown = !unlisted.length && !unknown.some((one) => beyond || one.besideAffected) && (!moved.length || uncovered.length !== moved.length);
    const depends = open.filter((one) => one.match === "depends" && !one.advisory.is_cost && !named.has(one.advisory.id));
    const hinges = hingesOf(data, depends);
    const conflicts = newConflicts(data, old.versions, now.versions);
    return {
      hinges,
      usual,
      conflicts,
      verdict: conflicts.length || against.length ? "no" : hinges.length || usual.length || !isKnown ? "unknown" : conditions.length ? "if set" : "yes",
      against,
      conditions,
      kept,
      keptOpen: after.filter((one) => one.match === "depends" && before.get(one.advisory.id).match === "depends" && one.advisory.decides && one.advisory.is_grave),
      unknown,
      uncovered,
      unlisted,
      olderThanRun: moved.length ? olderThanRun(data, now.versions) : [],
      ungrounded: moved.filter((name, at) => covers[at] === "depends"),
      notRun: after.filter((one) => one.advisory.decides && isNewlyUnknown(one, before)),
      depends,
      changes: others.filter((one) => !one.advisory.is_cost),
      gained: after.flatMap((one) => {
        const was = before.get(one.advisory.id);
        if (one.match === "concerned" && was.match === "free" && one.advisory.is_improvement) return [one];
        return one.match === "free" && ["concerned", "depends"].includes(was.match) && one.advisory.is_fault ? [was] : [];
      }),
    };
  };
  const reasonsOf = (answer) => [...answer.against, ...answer.usual];
  const aboutOf = (answer) => new Set([...reasonsOf(answer).flatMap((one) => packagesOf(one.advisory)), ...answer.conflicts.flatMap((one) => [one.package, one.other])]);
  const insteadOf = (data, old, now, answer, before) => {
    const about = aboutOf(answer);
    for (const name of Object.keys(now.versions).filter((one) => about.has(one) && old.versions[one] !== now.versions[one])) {
      const [target, start] = [now.versions[name], old.versions[name] ?? now.versions[name]];
      const beside = reasonsOf(answer).flatMap((one) => one.advisory.partners).filter((one) => one.package === name);
      const known = unique([...knownVersions(data.advisories, name), ...beside.flatMap((one) => [...one.affected, ...one.unaffected])]).sort(compared);
      const newer = known.filter((one) => compared(one, target) > 0 && compared(one, start) !== 0);
      const between = known.filter((one) => compared(start, one) < 0 && compared(one, target) < 0).reverse();
      for (const side of [newer, between]) {
        const isFree = (job) => reasonsOf(answer).every((one) => matched(data, one.advisory, job).match === "free");
        const answers = side.map((version) => [version, changed(data, now, { [name]: version })]).filter(([, job]) => isFree(job))
          .map(([version, job]) => [version, judged(data, old, job, before)])
          .filter(([, tried]) => !tried.kept.some((one) => one.advisory.ends_the_job));
        const found = ["yes", "if set"].map((verdict) => answers.find(([, tried]) => tried.verdict === verdict)).find(Boolean);
        if (found) return [{ [name]: found[0] }, found[1].conditions];
      }
    }
    return [{}, []];
  };
  const liftedBy = (data, old, now, answer, before) => {
    for (const { package: name, version } of reasonsOf(answer).flatMap((one) => one.advisory.remedies).filter((one) => one.version)) {
      const own = now.versions[name];
      if (own === undefined || own !== old.versions[name] || compared(version, own) < 0) continue;
      let job = changed(data, now, { [name]: version });
      const found = Object.fromEntries(endingWithoutFaults(data, newConflicts(data, old.versions, job.versions), old, job));
      job = changed(data, job, found);
      if (newConflicts(data, old.versions, job.versions).length) continue;
      if (judged(data, old, job, before).verdict === "yes") return Object.entries({ [name]: version, ...found });
    }
    return [];
  };
  const stayingOf = (data, old, now, answer, before) => {
    const changing = Object.keys(now.versions).filter((name) => old.versions[name] !== now.versions[name]);
    const blamed = changing.filter((name) => aboutOf(answer).has(name) && name in old.versions);
    for (const names of blamed.length > 1 ? [...blamed.map((one) => [one]), blamed] : [blamed]) {
      if (!names.length || names.length === changing.length) continue;
      const kept = Object.fromEntries(names.map((name) => [name, old.versions[name]]));
      const tried = judged(data, old, changed(data, now, kept), before);
      if (["yes", "if set"].includes(tried.verdict)) return [kept, tried.conditions];
    }
    return [{}, []];
  };
  const skippedBetween = (data, old, now) => {
    const atEnds = new Set([old, now].flatMap((job) => matchAll(data, job)).filter((one) => one.match !== "free").map((one) => one.advisory.id));
    const others = data.advisories.filter((one) => !atEnds.has(one.id) && one.decides);
    const found = [];
    for (const [name, target] of Object.entries(now.versions)) {
      const start = old.versions[name] ?? target;
      const hit = new Map();
      for (const version of knownVersions(others, name).filter((one) => compared(start, one) < 0 && compared(one, target) < 0)) {
        const tried = changed(data, now, { [name]: version });
        for (const one of others) {
          const isRanged = one.ranges.some((range) => range.package === name && isAffected(version, range.affected, range.unaffected));
          const answer = isRanged && matched(data, one, tried);
          if (answer && (answer.match === "concerned" || usuallyConcerns(data, answer, tried))) hit.set(one, [...(hit.get(one) || []), version]);
        }
      }
      for (const [advisory, releases] of hit) found.push({ package: name, releases, advisory });
    }
    return found;
  };

  // Questions and the first line

  const asked = (data, depending) => {
    const groups = new Map();
    for (const one of depending) {
      const key = JSON.stringify([one.open.map((each) => each.text).sort(), [...one.packages].sort()]);
      groups.set(key, [...(groups.get(key) || []), one]);
    }
    const questions = [...groups.values()].map((found) => {
      const places = found[0].open.map((each) => data.common.indexOf(each.fact));
      const isCommon = !found[0].packages.length && !places.includes(-1);
      const text = joined([...found[0].open.map((each) => each.text), ...found[0].packages.map((name) => `some releases of ${name}`)], "and");
      const first = Math.min(data.common.length, ...places.filter((at) => at >= 0));
      return { text, texts: found[0].open.map((each) => each.text), isCommon, matched: found, order: [isCommon ? 0 : 1, found[0].open.length + found[0].packages.length, -found.length, first] };
    });
    return questions.sort((a, b) => a.order.map((one, at) => one - b.order[at]).find((one) => one !== 0) || 0);
  };
  const changeText = (data, old, now) => {
    const names = Object.keys(now.versions).filter((name) => old.versions[name] !== now.versions[name]);
    const order = [...names.filter((name) => data.axes.includes(name)), ...names.filter((name) => !data.axes.includes(name))];
    const texts = order.map((name) => (name in old.versions ? `${name} ${old.versions[name]} -> ${now.versions[name]}` : `${name} ${now.versions[name]}`));
    return texts.length ? listing(texts, 2) : "the same releases";
  };
  const settingsOf = (conditions, where = " (below)") => {
    const ended = conditions.map((one) => one.remedies).filter((one) => one.length);
    const whole = ended.length > 1 && ended[0].find((each) => ended.every((one) => one.some((other) => isSame(each, other))));
    const settings = unique((whole ? [[whole]] : ended).map((one) => joined(one.slice(0, 3).map((each) => each.request.split(";")[0]), "or")));
    const leaks = conditions.filter((one) => !one.remedies.length).length;
    return [...settings, ...(leaks ? [`have the memory for ${plural(leaks, "leak")}${where}`] : [])].join(" and ");
  };
  const namedQuestions = (questions) => {
    const common = questions.filter((one) => one.isCommon);
    const within = (one, other) => one.texts.length < other.texts.length && one.texts.every((each) => other.texts.includes(each));
    const named = common.filter((one) => !common.some((other) => within(other, one))).slice(0, 2);
    return named.slice(0, named.reduce((length, one) => length + one.text.length, 0) <= 80 ? 2 : 1);
  };
  const notAbout = (packages) => `no advisory is about ${listing(packages, 3)} for a job like this`;
  const restsOnLess = (answer) => answer.notRun.length + answer.uncovered.length + answer.unlisted.length + answer.ungrounded.length + answer.olderThanRun.length > 0;
  const aboutNone = (answer) => {
    if (answer.uncovered.length) return `; ${notAbout(answer.uncovered)}`;
    if (answer.olderThanRun.length) return `; nothing was run with ${listing(answer.olderThanRun, 3)}`;
    const told = new Set([...answer.gained, ...answer.kept].flatMap((one) => packagesOf(one.advisory)));
    const untold = answer.ungrounded.filter((name) => !told.has(name));
    if (!untold.length || answer.notRun.length || answer.questions.length) return "";
    return `; no advisory is known to be about ${listing(untold, 3)} for a job like this`;
  };
  const provisos = (answer) => {
    const settings = settingsOf(answer.conditions);
    const named = namedQuestions(answer.questions);
    const kinds = unique(named.flatMap((one) => one.matched.map(({ advisory }) => advisory.kind)));
    const exceptions = named.length ? `, except with ${named.map((one) => one.text).join(" or ")} (${kinds.join(" or ")})` : "";
    const kept = answer.kept.length ? `; it does not end what the job has: ${firstTitle(answer.kept)}` : "";
    const rest = answer.questions.length - named.length;
    const left = [
      ...(rest ? [plural(rest, named.length ? "more question" : "question")] : []),
      ...(answer.keptQuestions.some((one) => one.isCommon && one.matched[0].open.length === 1) ? ["faults that both may have"] : []),
      ...(answer.notRun.length ? [`${plural(answer.notRun.length, "advisory", "advisories")} not run`] : []),
    ];
    const open = left.length ? `; open, below: ${left.join(", ")}` : "";
    return `${settings ? `, if you ${settings}` : ""}${exceptions}${kept}${open}${aboutNone(answer)}`;
  };
  const firstOf = (titles) => titles[0] + (titles.length > 1 ? ` and ${titles.length - 1} more` : "");
  const firstTitle = (found) => firstOf(found.map((one) => one.advisory.title));
  const unknownText = (data, answer, old, now) => {
    const reasons = unique(answer.unknown.flatMap((one) => one.notRun));
    if (answer.usual.length || answer.hinges.length) {
      const ids = [...answer.usual, ...answer.hinges].map((one) => one.advisory.id);
      const found = answer.depends.filter((one) => ids.includes(one.advisory.id));
      const isTelling = (each) => data.common.includes(each.fact) || each.shown.some((value) => value !== false);
      const telling = ({ open }) => (open.some(isTelling) ? open.filter(isTelling) : open).map((each) => each.text);
      const named = unique(found.map((one) => `${one.advisory.kind} with ${joined(telling(one), "and")}`));
      const isTo = Object.keys(answer.instead).length || Object.keys(answer.staying).length || answer.ending.length;
      const to = isTo ? `; ${whereTo(answer, old, now)}` : "";
      return `not known until the job is stated: ${joined(named, "and")}${to}`;
    }
    const releases = reasons.filter((one) => answer.releases.includes(one));
    const what = releases.length ? releases : answer.unlisted.length ? answer.unlisted : reasons;
    if (!what.length) return `not known: ${notAbout(answer.uncovered)}`;
    return `not known: ${listing(what, 2)} ${what.length === 1 ? "was" : "were"} not run`;
  };
  const endingWithoutFaults = (data, conflicts, old, now) => {
    const found = endingReleases(data, conflicts, old.versions, now.versions);
    const isSound = (name, job) => !data.advisories.some((one) => one.decides && one.is_fault && packagesOf(one).includes(name) &&
      matched(data, one, job).match === "concerned" && matched(data, one, old).match !== "concerned");
    for (const pair of found.filter(([name, release]) => old.versions[name] !== release)) {
      const [name, least] = pair;
      const sound = releasesOf(data, name).filter((one) => compared(one, least) >= 0).find((release) => {
        const versions = { ...now.versions, ...Object.fromEntries(found), [name]: release };
        return !newConflicts(data, old.versions, versions).length && isSound(name, { ...now, versions });
      });
      pair[1] = sound || least;
    }
    return found;
  };
  const besideOf = (answer, old, now) => {
    const { ending } = answer;
    if ((answer.against.length && (answer.conflicts.length || Object.keys(answer.instead).length)) || !ending.length || ending.some(([other]) => other in answer.instead)) return "";
    const moved = ending.filter(([name, release]) => old.versions[name] !== release);
    const textOf = (found) => joined(found.map((one) => one.join(" ")), "and");
    if (!moved.length) return `stay at ${textOf(ending)}`;
    return `use ${textOf(moved)}${moved.every(([name]) => old.versions[name] === now.versions[name]) ? " as well" : ""}`;
  };
  const whereTo = (answer, old, now) => {
    const instead = Object.entries(answer.instead).map(([name, version]) => `${name} ${version}`);
    const settings = settingsOf(answer.insteadConditions, "");
    const beside = besideOf(answer, old, now);
    if (instead.length) return `go to ${listing(instead)}${settings && ` and ${settings}`}${beside && `, or ${beside}`}`;
    const kept = Object.entries(answer.staying).map((one) => one.join(" "));
    if (kept.length) return `keep ${joined(kept, "and")}, the others can go${settings && `, if you ${settings}`}`;
    if (beside) return beside;
    const about = aboutOf(answer);
    const stay = listing(Object.entries(old.versions).filter(([name]) => about.has(name)).map(([name, version]) => `${name} ${version}`));
    const others = answer.against.flatMap((one) => one.advisory.remedies).filter((one) => one.fact && one.is_another_job);
    const setting = others.length && answer.against.length === 1 ? `, or ${others[0].request}` : "";
    return `no release to go to is known, stay at ${stay}${setting}`;
  };
  const verdictText = (data, answer, old, now) => {
    if (answer.verdict === "no") {
      const first = firstOf([...answer.conflicts.map((one) => one.text), ...answer.against.map((one) => one.advisory.title)]);
      return `no: ${first}; ${whereTo(answer, old, now)}`;
    }
    if (answer.verdict === "unknown") {
      const settings = settingsOf(answer.conditions);
      return unknownText(data, answer, old, now) + (settings ? `; in any case ${settings}` : "");
    }
    const isYes = answer.verdict === "if set" || !restsOnLess(answer);
    return `${isYes ? "yes" : answer.kept.length ? "no known new problem" : "no known problem"}${provisos(answer)}`;
  };

  // The answer for a job, {versions, facts}, that goes to other `versions`.
  const upgrade = (data, stated, versions) => {
    const old = { versions: stated.versions, facts: withConsequences(data, stated.facts) };
    const now = changed(data, old, versions);
    const added = Object.keys(now.versions).filter((name) => !(name in old.versions));
    const isOfAdded = (one) => packagesOf(one.advisory).some((name) => added.includes(name));
    const before = matchAll(data, old).map((one) => (isOfAdded(one) ? { ...one, match: "free", open: [], packages: [], notRun: [] } : one));
    const answer = judged(data, old, now, before);
    const chosen = (conditions, job) => alignedConditions(data, conditions.map((one) => ({ ...one, remedies: chosenRemedies(data, one.matched, job, one.remedies) })), job);
    answer.conditions = chosen(answer.conditions, now);
    [answer.instead, answer.insteadConditions] = answer.verdict === "no" || answer.usual.length ? insteadOf(data, old, now, answer, before) : [{}, []];
    const isRuledOut = answer.verdict === "no" || answer.usual.length > 0;
    const isOpen = isRuledOut && !Object.keys(answer.instead).length;
    answer.ending = endingWithoutFaults(data, answer.conflicts, old, now);
    if (isOpen && !answer.ending.length) answer.ending = liftedBy(data, old, now, answer, before);
    answer.staying = {};
    if (isOpen && answer.ending.every(([name, release]) => old.versions[name] === release)) {
      [answer.staying, answer.insteadConditions] = stayingOf(data, old, now, answer, before);
    }
    answer.insteadConditions = chosen(answer.insteadConditions, changed(data, now, { ...answer.instead, ...answer.staying }));
    answer.skipped = skippedBetween(data, old, now);
    answer.questions = asked(data, answer.depends.filter((one) => one.advisory.decides && !answer.usual.includes(one)));
    answer.keptQuestions = asked(data, answer.keptOpen);
    answer.releases = Object.entries(now.versions).filter(([name, version]) => old.versions[name] !== version).map(([name, version]) => `${name} ${version}`);
    answer.shown = answer.verdict === "yes" && restsOnLess(answer) ? "unknown" : answer.verdict;
    answer.headline = `${changeText(data, old, now)}: ${verdictText(data, answer, old, now)}`;
    return answer;
  };
  return { upgrade };
})();
