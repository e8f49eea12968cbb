// Light or dark before anything is drawn: films on dark unless somebody chose light, other pages as the system has it.
"use strict";
(() => {
  const root = document.documentElement, place = "updp-theme-" + root.dataset.page;
  const kept = () => { try { return localStorage.getItem(place); } catch { return null; } };
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = kept() || (root.dataset.page === "film" || dark ? "dark" : "light");
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    if (button) button.addEventListener("click", () => {
      root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
      try { localStorage.setItem(place, root.dataset.theme); } catch { /* the choice lasts for this page */ }
    });
  });
})();
