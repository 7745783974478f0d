// The charts of a report: each place with the spec of a figure (Figure.spec() in Python) gets its drawings, one for a
// desk and one for a phone. The page's sheet shows the one that fits.
// @ts-check

import { HALF, LARGE, SMALL, draw } from "./drawing.js";
import { fill, svgElement } from "./dom.js";
import { Figure } from "./figure.js";

for (const place of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-spec]"))) {
  const figure = new Figure(JSON.parse(place.dataset.spec ?? ""));
  for (const size of ["half" in place.dataset ? HALF : LARGE, SMALL]) {
    const { width, height, shapes } = draw(figure, size);
    const shown = svgElement("g");
    fill(shown, shapes);
    const title = svgElement("title", {}, figure.spec.title);
    const told = svgElement("desc", {}, figure.spec.description);
    const around = { class: size.kind, viewBox: `0 0 ${width} ${height}`, role: "img" };
    place.append(svgElement("svg", around, title, told, shown));
  }
}
