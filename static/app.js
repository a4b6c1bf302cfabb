// Wireroom's glue: what htmx needs under a strict policy, and the few things only a script can do.
// Every page works without it. Nothing here knows a dispatch.
"use strict";

(() => {
  const root = document.documentElement;
  const assets = document.currentScript.dataset;
  root.classList.add("js");

  // Times are written by the server; it learns the zone from this cookie.
  try {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    if (zone) document.cookie = `tz=${encodeURIComponent(zone)}; path=/; max-age=31536000; samesite=lax`;
  } catch { /* no zone, no cookie: the pages say UTC */ }

  // The CDN did not answer (refused, blocked, or other bytes than the hash allows): our own copies.
  const load = (src) => new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = src;
    script.async = false;
    script.onload = done;
    script.onerror = failed;
    document.head.append(script);
  });

  const boot = async () => {
    if (!window.htmx || !window.Idiomorph) {
      // htmx starts by itself only in a complete document.
      if (document.readyState !== "complete") await new Promise((done) => addEventListener("load", done));
      if (!window.htmx) await load(assets.htmx);
      await load(assets.idiomorph);
    }
    keepWhatPeopleDid(window.Idiomorph);
  };

  // A refresh must not undo a tick, an open disclosure or half-typed text.
  const keepWhatPeopleDid = (morph) => {
    morph.defaults.ignoreActiveValue = true;
    morph.defaults.callbacks.beforeAttributeUpdated = (name, element) => {
      const typed = "input[type=search],input[type=text],input:not([type]),textarea";
      if (name === "open" && element.matches("details,dialog")) return false;
      if (name === "checked" && element.matches("[data-sel]")) return false;
      return !(name === "value" && element.matches(typed));
    };
  };

  // ---- Live updates -----------------------------------------------------------------------
  let paused = false;
  let failures = 0;
  let updated = Date.now();

  const poller = () => document.querySelector("[data-poll]");
  const holdsStill = () =>
    paused || document.hidden || navigator.onLine === false ||
    document.querySelector("dialog[open], [data-sel]:checked, .do:hover, .do:focus-within, [data-hold][open]");

  const say = () => {
    const line = document.getElementById("live-line");
    const text = line?.querySelector("[data-live-text]");
    if (!text) return;
    const at = poller();
    line.toggleAttribute("data-stale", failures > 0);
    if (failures > 0) {
      text.textContent = `Live updates stopped at ${clock(updated)}; trying again in ${wait()} s`;
    } else if (paused) {
      text.textContent = `Paused at ${clock(updated)}`;
    } else if (!at) {
      text.textContent = line.dataset.rest || "";
    } else {
      text.textContent = `Updated ${ago(updated)}`;
    }
    line.querySelector("[data-live-switch]")?.toggleAttribute("hidden", !at);
  };

  const clock = (time) => new Date(time).toLocaleTimeString("en-GB");
  const ago = (time) => `${Math.max(0, Math.round((Date.now() - time) / 1000))} s ago`;
  const wait = () => Math.min(60, 5 * 2 ** Math.min(failures - 1, 4));
  let retryAt = 0;

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (!event.target.closest?.("[data-poll]")) return;
    if (holdsStill() || Date.now() < retryAt) event.preventDefault();
  });

  document.addEventListener("htmx:afterRequest", (event) => {
    if (!event.target.closest?.("[data-poll]")) return;
    const status = event.detail.xhr?.status ?? 0;
    if (status === 401) { location.reload(); return; }
    if (status === 200 || status === 204) {
      failures = 0;
      retryAt = 0;
      updated = Date.now();
    } else {
      failures += 1;
      retryAt = Date.now() + wait() * 1000;
    }
    say();
  });

  // A poll that failed says so in its own line; it changes nothing else on the page.
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.target.closest?.("[data-poll]") && event.detail.xhr.status !== 200) event.detail.shouldSwap = false;
  });

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) document.body.dispatchEvent(new Event("wake"));
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-live-switch]");
    if (!button) return;
    paused = !paused;
    button.querySelector("use")?.setAttribute("href", button.dataset[paused ? "play" : "pause"]);
    button.querySelector("span").textContent = paused ? "Go on" : "Pause";
    if (!paused) document.body.dispatchEvent(new Event("wake"));
    say();
  });

  // "8 min ago" grows older by itself; the server's words stay where the script does not run.
  const age = (seconds) => {
    if (seconds < 60) return `${Math.floor(seconds)} s ago`;
    if (seconds < 5400) return `${Math.floor(seconds / 60)} min ago`;
    if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ago`;
    return `${Math.floor(seconds / 86400)} days ago`;
  };
  const skew = Date.now() - Date.parse(root.dataset.now || new Date().toISOString());
  const grow = () => {
    for (const time of document.querySelectorAll("time[data-ago]")) {
      const seconds = (Date.now() - skew - Date.parse(time.dateTime)) / 1000;
      if (seconds >= 0) time.textContent = age(seconds);
    }
    say();
  };

  // ---- Errors of a press are shown, not swallowed ------------------------------------------
  const tell = (words) => {
    const place = document.getElementById("notices");
    if (!place) return;
    const box = document.createElement("div");
    box.className = "notice bad";
    box.append(words);
    place.replaceChildren(box);
  };
  const pressed = (event) => !event.target.closest?.("[data-poll]");
  document.addEventListener("htmx:sendError", (event) => {
    if (pressed(event)) tell("Wireroom did not answer, so nothing was changed as far as this page knows. Look again in a moment.");
  });
  document.addEventListener("htmx:timeout", (event) => {
    if (pressed(event)) tell("No answer in 15 s. It may have been done all the same: reload the page and look.");
  });

  // ---- Copying ------------------------------------------------------------------------------
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy], [data-copy-from]");
    if (!button) return;
    const source = button.dataset.copyFrom && document.getElementById(button.dataset.copyFrom);
    const text = source ? source.value ?? source.textContent : button.dataset.copy;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      if (!source) return;
      source.closest("details")?.setAttribute("open", "");
      source.select?.();
      return;
    }
    button.classList.add("copied");
    const words = button.querySelector("[data-copy-word]");
    const before = words?.textContent;
    if (words) words.textContent = "Copied";
    setTimeout(() => {
      button.classList.remove("copied");
      if (words) words.textContent = before;
    }, 1500);
  });

  // ---- Keys ---------------------------------------------------------------------------------
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const field = document.querySelector(".find [type=search]");
    if (!field) return;
    event.preventDefault();
    field.focus();
    field.select();
  });

  // ---- Theme --------------------------------------------------------------------------------
  document.addEventListener("click", (event) => {
    const chosen = event.target.closest("[data-theme-choice]");
    if (!chosen) return;
    root.dataset.theme = chosen.dataset.themeChoice;
    document.cookie = `theme=${chosen.dataset.themeChoice}; path=/; max-age=31536000; samesite=lax`;
    for (const one of document.querySelectorAll("[data-theme-choice]")) {
      one.setAttribute("aria-pressed", String(one === chosen));
    }
  });

  // A filter that is chosen is applied; the button is for those without a script.
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-apply] select")) event.target.form.requestSubmit();
  });

  document.addEventListener("DOMContentLoaded", () => {
    boot().catch(() => root.classList.remove("js"));
    setInterval(grow, 1000);
    grow();
  });
})();
