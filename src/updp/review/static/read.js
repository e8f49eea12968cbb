// A reader's page: one film, the questions of the plan, and the next film before it is asked for.
"use strict";
(async () => {
  const CONFIDENCE = ["definitely absent", "probably absent", "uncertain", "probably present", "definitely present"];
  const QUALITY = ["not diagnostic", "poor", "acceptable", "good", "excellent"], AHEAD = 3;
  const by = (id) => document.getElementById(id), form = by("questions"), rows = by("rows"), message = by("message");
  const packed = window.updpStudy;

  // -- where answers go: a server, or this browser until they are saved to a file ------------------------------------
  const server = {
    async open() {
      const answer = await fetch("/read/plan", { headers: { accept: "application/json" } });
      if (!answer.ok) throw new Error((await answer.json()).error);
      return answer.json();
    },
    async film(name) {
      const answer = await fetch("/read/film/" + name);
      if (!answer.ok) throw new Error("The film cannot be shown; tell the hospital.");
      return createImageBitmap(await answer.blob());
    },
    async save(answer) {
      const headers = { "content-type": "application/json", accept: "application/json", "x-form-code": document.querySelector("meta[name=form-code]").content };
      const reply = await fetch("/read/answers", { method: "POST", headers, body: JSON.stringify(answer) });
      if (!reply.ok) throw new Error((await reply.json()).error);
    },
  };
  const waiting = new Map();
  window.updpFilm = (name, address) => waiting.get(name)(address);
  const folder = packed && {
    place: `updp ${packed.plan} ${packed.reader}`,
    async open() { return { ...packed, answers: Object.fromEntries(this.list().map((a) => [a.item, a])) }; },
    list() { return JSON.parse(localStorage.getItem(this.place) || "[]"); },
    async film(name) {
      const address = await new Promise((done, failed) => {
        waiting.set(name, done);
        const script = document.createElement("script");
        script.src = `films/${name}.js`;
        script.onerror = () => failed(new Error("A film is missing from this folder; copy all of it."));
        document.head.append(script);
      });
      const image = new Image();
      image.src = address;
      await image.decode();
      return createImageBitmap(image);
    },
    async save(answer) { localStorage.setItem(this.place, JSON.stringify([...this.list(), answer])); },
  };
  const store = packed ? folder : server;

  let study;
  try { study = await store.open(); } catch (error) { by("place").textContent = "The study cannot be opened."; message.textContent = error.message; return; }
  const answers = new Map(Object.entries(study.answers).map(([item, answer]) => [Number(item), answer]));
  const asked = [
    ...study.findings.map((name, n) => ({ id: "finding-" + n, title: name.replaceAll("_", " "), steps: CONFIDENCE, values: [1, 2, 3, 4, 5] })),
    { id: "quality", title: "Image quality", steps: QUALITY, values: [1, 2, 3, 4, 5] },
    { id: "origin", title: "Real or generated?", steps: ["a patient's film", "made by a model"], values: ["real", "generated"], keys: ["R", "G"] },
  ];

  for (const question of asked) {
    const field = document.createElement("fieldset"), legend = document.createElement("legend"), steps = document.createElement("div");
    field.id = question.id;
    field.className = question.steps === CONFIDENCE ? "short" : "";
    legend.textContent = question.title;
    steps.className = "steps";
    question.values.forEach((value, n) => {
      const label = document.createElement("label"), input = document.createElement("input"), step = document.createElement("span"), strong = document.createElement("b"), words = document.createElement("span");
      Object.assign(input, { type: "radio", name: question.id, value });
      step.className = "step";
      strong.textContent = value;
      words.textContent = question.steps[n];
      step.append(strong, words);
      label.append(input, step);
      steps.append(label);
    });
    field.append(legend, steps);
    rows.append(field);
  }
  const scale = document.createElement("p");
  scale.className = "scale";
  scale.setAttribute("aria-hidden", "true"); // every step says its words to a screen reader
  CONFIDENCE.forEach((words, n) => { if (n % 2 === 0) scale.append(Object.assign(document.createElement("span"), { textContent: `${n + 1} ${words}` })); });
  rows.prepend(scale);
  const fields = [...rows.querySelectorAll("fieldset")];
  const given = (field) => field.querySelector("input:checked")?.value;

  // -- films, a few ahead ---------------------------------------------------------------------------------------------
  const viewer = new Viewer([by("film")], (v) => { by("reading").textContent = v.words; }), films = new Map();
  const fetched = (n) => {
    if (n >= study.items.length || n < 0) return null;
    if (!films.has(n)) films.set(n, store.film(study.items[n].film).catch((error) => { films.delete(n); throw error; }));
    for (const old of films.keys()) if (old < n - 2 || old > n + AHEAD + 2) films.delete(old);
    return films.get(n);
  };
  const drafts = new Map(); // answers on their way
  let item = 0, now = 0, since = 0;
  const unreached = (error, what, then) => error instanceof TypeError ? `${what}: the server cannot be reached. ${then}` : error.message;

  const point = (n) => {
    now = Math.min(Math.max(n, 0), fields.length - 1);
    fields.forEach((field, m) => field.classList.toggle("now", m === now));
    (fields[now].querySelector("input:checked") || fields[now].querySelector("input")).focus({ preventScroll: false });
  };
  const first = () => { for (let n = 0; n < study.items.length; n++) if (!answers.has(n)) return n; return study.items.length; };
  const early = (n) => {
    const one = study.items[n], before = answers.get(n - 1);
    if (!study.days || !one || !before || study.items[n - 1].session === one.session) return 0;
    return Math.max(0, Math.ceil(study.days - (Date.now() - Date.parse(before.at)) / 864e5));
  };
  const note = by("finished");
  const finish = async (n, title, words) => {
    if (saving) await saving;
    if (item !== n) return; // the last answer was not saved, or was taken back, and its film is back
    note.hidden = false;
    note.querySelector("h2").textContent = title;
    note.querySelector("p").textContent = words;
    by("film").hidden = rows.hidden = by("answer").disabled = true;
    note.focus();
  };
  const show = async (n) => {
    item = n;
    by("done").value = answers.size;
    document.body.dataset.item = n;
    delete document.body.dataset.shown;
    if (n >= study.items.length) {
      by("place").textContent = `All ${study.items.length} films are read`;
      return finish(n, "Thank you, that was the last film.", packed ? "Save your answers to a file and send it to the hospital." : "Everything is saved. You may close this page.");
    }
    const wait = early(n);
    if (wait) {
      by("place").textContent = `${n} of ${study.items.length} films are read`;
      return finish(n, `Session ${study.items[n].session} opens in ${wait} ${wait === 1 ? "day" : "days"}.`, "A pause between sessions keeps films from being remembered. Everything is saved.");
    }
    note.hidden = true;
    by("film").hidden = rows.hidden = by("answer").disabled = false;
    by("place").textContent = `Film ${n + 1} of ${study.items.length} · session ${study.items[n].session}`;
    form.reset();
    const old = answers.get(n) || drafts.get(n);
    if (old) {
      const values = [...old.findings, old.quality, old.origin];
      fields.forEach((field, m) => { const box = field.querySelector(`input[value="${values[m]}"]`); if (box) box.checked = true; });
    }
    message.textContent = "";
    viewer.clear(0); // nobody answers for a film while the one before is in sight
    try {
      const bitmap = await fetched(n);
      if (item !== n) return;
      viewer.reset();
      viewer.show(0, bitmap);
      requestAnimationFrame(() => requestAnimationFrame(() => { if (item === n) document.body.dataset.shown = n; performance.mark("shown-" + n); }));
    } catch (error) {
      if (item !== n) return;
      message.textContent = unreached(error, "The film cannot be shown", "Press Enter to try again.");
    }
    since = performance.now();
    point(0);
    for (let ahead = 1; ahead <= AHEAD; ahead++) fetched(n + ahead)?.catch(() => {});
  };

  // The next film shows while an answer is being saved; another answer waits for it. An answer that cannot be saved
  // brings its film back, with what was chosen.
  let saving = null;
  const answer = async () => {
    if (saving) await saving;
    if (item < study.items.length && !viewer.films[0]) return show(item); // not in sight yet, or it could not be fetched
    const missing = fields.findIndex((field) => given(field) === undefined);
    if (missing >= 0) { message.textContent = `Please answer: ${asked[missing].title}`; return point(missing); }
    if (item >= study.items.length) return;
    const values = fields.map(given), count = study.findings.length;
    const made = { item, film: study.items[item].film, findings: values.slice(0, count).map(Number), quality: Number(values[count]), origin: values[count + 1], at: new Date().toISOString(), milliseconds: Math.round(performance.now() - since) };
    const from = item, before = answers.get(from);
    performance.mark("asked-" + (from + 1));
    drafts.set(from, made);
    answers.set(from, made);
    delete document.body.dataset.saved;
    saving = store.save(made).then(() => { drafts.delete(from); document.body.dataset.saved = from; }, async (error) => {
      if (before) answers.set(from, before); else answers.delete(from);
      await show(from);
      message.textContent = unreached(error, "The answer is not saved", "Your choices stay here; try again.");
    }).finally(() => { saving = null; });
    await show(from + 1 < first() ? from + 1 : first());
  };

  form.addEventListener("submit", (event) => { event.preventDefault(); answer(); });
  rows.addEventListener("focusin", (event) => { const field = event.target.closest("fieldset"); if (field) { now = fields.indexOf(field); fields.forEach((one) => one.classList.toggle("now", one === field)); } });
  by("undo").addEventListener("click", () => {
    const before = study.items[item - 1], one = study.items[item];
    if (!before) return;
    if (one && before.session !== one.session && !early(item)) { message.textContent = "The session before has ended; its answers stay as they are."; return; }
    show(item - 1);
  });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (rows.hidden) { if (event.key === "Backspace") by("undo").click(); return; }
    const onFilm = document.activeElement === by("film"), key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const choose = (n, value) => { fields[n].querySelector(`input[value="${value}"]`).checked = true; point(n + 1 < fields.length ? n + 1 : n); };
    if (/^[1-5]$/.test(key) && !asked[now].keys) choose(now, key);
    else if (key === "r" || key === "g") choose(fields.length - 1, key === "r" ? "real" : "generated");
    else if (key === "n") { study.findings.forEach((_, n) => { fields[n].querySelector('input[value="1"]').checked = true; }); point(study.findings.length); }
    else if (key === "ArrowDown" && !onFilm) point(now + 1);
    else if (key === "ArrowUp" && !onFilm) point(now - 1);
    else if (key === "Enter" && !event.target.closest("button")) answer();
    else if (key === "Backspace") by("undo").click();
    else if (!viewer.key(event)) return;
    event.preventDefault();
  });
  by("save")?.addEventListener("click", () => {
    const file = new Blob([JSON.stringify(updpCode.file(packed, folder.list()), null, 1)], { type: "application/json" }), link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = `answers ${packed.reader}.json`;
    link.click();
  });
  show(first());
})();
