"""What is measured inside a page: scripts that chromium runs beside the page's own.

``UPDATES`` is there before the page's first script. It stands in front of every listener for server-sent events and
notes when an event came, when the frame with the first change of a plot was painted, and when that with the last. A
frame is painted when a message, sent while it was being drawn, is delivered: chromium does that after it has handed the
frame over.
"""

from __future__ import annotations

UPDATES = """
(() => {
  const LATE_MS = 400;
  const kept = { updates: [], newest: null, late: LATE_MS };
  window.__meter = kept;
  const seen = new WeakSet();
  const delivered = (then) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => { channel.port1.close(); then(performance.now()); };
    channel.port2.postMessage(0);
  };
  const add = EventSource.prototype.addEventListener;
  EventSource.prototype.addEventListener = function (kind, listener, options) {
    if (kind !== "now" && kind !== "rounds" && kind !== "experiment") return add.call(this, kind, listener, options);
    return add.call(this, kind, (event) => {
      const began = performance.now();
      if (!seen.has(event)) {
        seen.add(event);
        const one = { kind, bytes: event.data.length, began, script: null, first: null, last: null };
        kept.updates.push(one);
        if (kind === "rounds") {
          one.number = Math.max(...JSON.parse(event.data).columns.number);
          kept.newest = one;
          one.began = performance.now();
        }
        listener.call(this, event);
        one.script = performance.now() - one.began;
      } else listener.call(this, event);
    }, options);
  };
  new MutationObserver((changes) => {
    const one = kept.newest;
    if (!one || performance.now() - one.began > LATE_MS) return;
    const shape = ({ target }) => (target instanceof Element ? target : target.parentElement);
    if (!changes.map(shape).some((one) => one?.closest("[data-figure] svg") && !one.closest("title, desc"))) return;
    // Plots are drawn within a frame: the message comes when this very frame is painted.
    delivered((when) => {
      one.first ??= when - one.began;
      one.last = when - one.began;
    });
  }).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
})();
"""

#: Frames until ``__frames.stop``: the moments at which each began.
FRAMES = """
() => {
  const kept = { moments: [], stop: false };
  window.__frames = kept;
  const turn = (when) => { kept.moments.push(when); if (!kept.stop) requestAnimationFrame(turn); };
  requestAnimationFrame(turn);
}
"""
STOP_FRAMES = "() => { window.__frames.stop = true; return window.__frames.moments; }"

#: The time to take apart what the server says about all rounds, with nothing done with it: no page can be quicker.
PARSING = """
async (path) => {
  const text = await (await fetch(path)).text();
  const times = [];
  for (let turn = 0; turn < 5; turn += 1) {
    const began = performance.now();
    JSON.parse(text);
    times.push(performance.now() - began);
  }
  return { bytes: text.length, ms: times.sort((a, b) => a - b)[2] };
}
"""
