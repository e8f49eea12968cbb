// What runs beside the server: ask how far it is, and load the page again when it is done.
"use strict";
(() => {
  const apply = document.getElementById("apply"), intact = document.getElementById("intact");
  const running = apply && apply.dataset.running;
  const waiting = intact && intact.dataset.waiting;
  if (!running && !waiting) return;
  const ask = async () => {
    const answer = await fetch("/desk/status", { headers: { accept: "application/json" } }).catch(() => null);
    if (!answer?.ok) return setTimeout(ask, 3000);
    const now = await answer.json();
    if (running) {
      if (!now.work.running) return location.reload();
      document.getElementById("progress").textContent = `${now.work.done} of ${now.work.total || "?"} films`;
      const bar = document.getElementById("bar");
      bar.max = now.work.total || 1;
      bar.value = now.work.done;
    } else if (now.intact !== null) {
      if (!now.intact || apply) return location.reload();
      intact.textContent = "intact: every file is as it was signed";
      delete intact.dataset.waiting;
      return;
    }
    setTimeout(ask, 700);
  };
  setTimeout(ask, 400);
})();
