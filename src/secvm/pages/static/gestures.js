// Pointer, touch, wheel and keys of a chart. One finger or the left button pans what is zoomed, two fingers and
// Ctrl + wheel zoom, a pointer that only hovers reads. The page itself can always be scrolled past a chart.
// @ts-check

/** @typedef {import("./chart.js").Chart} Chart */

/** @param {Chart} chart @param {HTMLElement} plot @param {AbortSignal} signal */
export function handle(chart, plot, signal) {
  /** Pointers that are down, and where. @type {Map<number, number>} */
  const down = new Map();
  const on = (/** @type {string} */ name, /** @type {(event: any) => void} */ does, options = {}) =>
    plot.addEventListener(name, does, { signal, ...options });

  /** @param {{clientX: number}} event in units of the drawing */
  const place = (event) => {
    const frame = plot.getBoundingClientRect();
    return ((event.clientX - frame.left) / frame.width) * (chart.drawing?.width ?? frame.width);
  };
  /** How far along what is shown. @param {number} x */
  const share = (x) => {
    const box = chart.drawing?.box;
    return box ? Math.min(1, Math.max(0, (x - box.left) / (box.right - box.left))) : 0.5;
  };
  const long = () => (chart.drawing ? chart.drawing.box.right - chart.drawing.box.left : 1);

  on("pointerdown", (event) => {
    if (event.button !== 0) return;
    down.set(event.pointerId, place(event));
    plot.setPointerCapture(event.pointerId);
    if (event.pointerType !== "mouse") chart.point(chart.drawing?.box.value(place(event)) ?? null);
  });
  on("pointermove", (event) => {
    const x = place(event);
    const was = down.get(event.pointerId);
    if (was === undefined || (down.size === 1 && !chart.view.range)) {
      chart.point(chart.drawing?.box.value(x) ?? null);
      return;
    }
    const others = [...down].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    down.set(event.pointerId, x);
    if (others.length) {
      const [apart, now] = [Math.abs(was - others[0]), Math.abs(x - others[0])];
      if (apart > 10 && now > 10) chart.view.zoom(apart / now, share((x + others[0]) / 2));
      else return;
    } else {
      plot.classList.add("moving");
      chart.view.pan((was - x) / long());
    }
    chart.moved();
  });
  const up = (/** @type {PointerEvent} */ event) => {
    down.delete(event.pointerId);
    plot.classList.remove("moving");
  };
  on("pointerup", up);
  on("pointercancel", up);
  on("pointerleave", (event) => {
    if (event.pointerType === "mouse" && document.activeElement !== plot) chart.point(null);
  });
  on("wheel", (event) => {
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (event.ctrlKey || event.metaKey) chart.view.zoom(2 ** (event.deltaY / 240), share(place(event)));
    else if (chart.view.range && Math.abs(sideways) >= Math.abs(event.shiftKey ? 0 : event.deltaY)) {
      chart.view.pan(sideways / long());
    } else return;
    event.preventDefault();
    chart.moved();
  }, { passive: false });

  /** @type {Record<string, (chart: Chart, far: boolean) => void>} */
  const keys = {
    ArrowRight: (_, far) => chart.step(far ? 10 : 1),
    ArrowLeft: (_, far) => chart.step(far ? -10 : -1),
    Home: () => chart.step(-Infinity),
    End: () => chart.step(Infinity),
    PageUp: () => chart.view.pan(-0.5),
    PageDown: () => chart.view.pan(0.5),
    "+": () => chart.view.zoom(0.5, around()),
    "=": () => chart.view.zoom(0.5, around()),
    "-": () => chart.view.zoom(2, around()),
    "−": () => chart.view.zoom(2, around()),
    0: () => chart.view.all(),
    Escape: () => chart.point(null),
  };
  const around = () => {
    const box = chart.drawing?.box;
    return chart.place === null || !box ? 0.5 : share(box.exactX(chart.place));
  };
  on("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const does = keys[event.key];
    if (!does) return;
    event.preventDefault();
    const before = chart.view.range;
    does(chart, event.shiftKey);
    if (chart.view.range !== before) chart.moved();
  });
  on("blur", () => chart.point(null));
}
