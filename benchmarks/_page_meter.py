"""What is measured inside a page: scripts that chromium runs beside the page's own.

``UPDATES`` is there before the page's first script. It stands in front of every listener for server-sent events and
notes when an event came and when the frame after it was painted; if a plot still changes soon after, the frame
after that counts. A frame is painted when a message, sent while it was being drawn, is delivered: chromium does that
after it has handed the frame over.
"""

from __future__ import annotations

UPDATES = """
(() => {
  const LATE_MS = 400;
  const kept = { updates: [], newest: null };
  window.__meter = kept;
  const seen = new WeakSet();
  const painted = (then) => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => { channel.port1.close(); then(performance.now()); };
    channel.port2.postMessage(0);
  });
  const add = EventSource.prototype.addEventListener;
  EventSource.prototype.addEventListener = function (kind, listener, options) {
    if (kind !== "now" && kind !== "rounds" && kind !== "experiment") return add.call(this, kind, listener, options);
    return add.call(this, kind, (event) => {
      const began = performance.now();
      if (!seen.has(event)) {
        seen.add(event);
        const one = { kind, bytes: event.data.length, began, script: null, painted: null, drawn: false };
        kept.updates.push(one);
        if (kind === "rounds") kept.newest = one;
        listener.call(this, event);
        one.script = performance.now() - began;
        painted((when) => { one.painted = Math.max(one.painted ?? 0, when - began); });
      } else listener.call(this, event);
    }, options);
  };
  new MutationObserver((changes) => {
    const one = kept.newest;
    if (!one || performance.now() - one.began > LATE_MS) return;
    if (!changes.some(({ target }) => target.parentElement?.closest("[data-figure]"))) return;
    one.drawn = true;
    painted((when) => { one.painted = Math.max(one.painted ?? 0, when - one.began); });
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
