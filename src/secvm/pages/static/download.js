// A chart as files: its numbers as CSV, its drawing as PNG. The picture is painted on a canvas, shape by shape, with
// the colours that the page's sheet gives them; nothing is fetched, and no address but a blob: is made.
// @ts-check

import { draw, LARGE } from "./drawing.js";
import { fill, svgElement } from "./dom.js";

/** @typedef {import("./figure.js").Figure} Figure */

/** Dots of the picture for each unit of the drawing; what is left free around it; the title's height. */
export const DOTS = 2;
export const AROUND = 20;
export const HEADING = 30;

/** @param {Figure} figure @param {[number, number]} across @param {Element} near where the page's sheet applies
 * @returns {Promise<Blob>} */
export async function picture(figure, across, near) {
  const { width, height, shapes } = draw(figure, LARGE, across);
  // Pictures go into papers and letters: they are drawn in daylight.
  const stage = document.createElement("div");
  stage.className = "chart-offstage";
  stage.dataset.theme = "light";
  stage.setAttribute("aria-hidden", "true");
  const svg = svgElement("svg", { class: LARGE.kind });
  stage.append(svg);
  near.append(stage);
  try {
    fill(svg, [["rect", { class: "sheet" }], ["text", { class: "heading" }, figure.spec.title], ...shapes]);
    const canvas = document.createElement("canvas");
    canvas.width = DOTS * (width + 2 * AROUND);
    canvas.height = DOTS * (height + HEADING + 2 * AROUND);
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const [sheet, heading, ...drawn] = svg.children;
    pen.fillStyle = getComputedStyle(sheet).fill;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.scale(DOTS, DOTS);
    pen.translate(AROUND, AROUND);
    heading.setAttribute("y", "16");
    paint(pen, heading);
    pen.translate(0, HEADING);
    for (const shape of drawn) paint(pen, shape);
    return await new Promise((resolve, reject) => {
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture could not be made"))), "image/png");
    });
  } finally {
    stage.remove();
  }
}

/** @param {CanvasRenderingContext2D} pen @param {Element} shape */
function paint(pen, shape) {
  const look = getComputedStyle(shape);
  const at = (/** @type {string} */ name) => Number(shape.getAttribute(name) ?? 0);
  pen.save();
  if (shape.localName === "text") {
    pen.font = `${look.fontWeight} ${look.fontSize} ${look.fontFamily}`;
    pen.fillStyle = look.fill;
    pen.textAlign = /** @type {CanvasTextAlign} */ (
      { middle: "center", end: "right" }[shape.getAttribute("text-anchor") ?? ""] ?? "left"
    );
    pen.fillText(shape.textContent ?? "", at("x"), at("y"));
  } else {
    const path = outline(shape, at);
    if (look.fill !== "none" && shape.localName !== "line") {
      pen.fillStyle = look.fill;
      pen.globalAlpha = Number(look.fillOpacity);
      pen.fill(path);
    }
    if (look.stroke !== "none") {
      pen.strokeStyle = look.stroke;
      pen.globalAlpha = Number(look.strokeOpacity);
      pen.lineWidth = parseFloat(look.strokeWidth);
      pen.lineCap = /** @type {CanvasLineCap} */ (look.strokeLinecap);
      pen.lineJoin = /** @type {CanvasLineJoin} */ (look.strokeLinejoin);
      pen.setLineDash(look.strokeDasharray === "none" ? [] : look.strokeDasharray.split(/[, ]+/).map(parseFloat));
      pen.stroke(path);
    }
  }
  pen.restore();
}

/** @param {Element} shape @param {(name: string) => number} at */
function outline(shape, at) {
  const path = new Path2D(shape.localName === "path" ? (shape.getAttribute("d") ?? "") : undefined);
  switch (shape.localName) {
    case "line":
      path.moveTo(at("x1"), at("y1"));
      path.lineTo(at("x2"), at("y2"));
      break;
    case "rect":
      path.rect(at("x"), at("y"), at("width"), at("height"));
      break;
    case "circle":
      path.arc(at("cx"), at("cy"), at("r"), 0, 2 * Math.PI);
      break;
    case "polyline":
    case "polygon":
      for (const point of (shape.getAttribute("points") ?? "").split(" ")) {
        const [x, y] = point.split(",").map(Number);
        path.lineTo(x, y);
      }
      if (shape.localName === "polygon") path.closePath();
  }
  return path;
}

/** Hand a file to the browser. @param {Blob} blob @param {string} name */
export function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // The browser has it by then; keeping it would keep the memory.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
