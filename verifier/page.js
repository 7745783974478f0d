"use strict";
// The page: it hands files to verify.js, and shows what that says.
(() => {
  const by = (id) => document.getElementById(id), made = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
  const show = (name, words) => { by("result").className = `panel ${name}`; by("verdict").textContent = words; };
  const run = async (get) => {
    for (const id of ["rounds", "unchecked", "digest"]) by(id).replaceChildren();
    for (const [id, hidden] of [["result", false], ["progress", false], ["remains", true]]) by(id).hidden = hidden;
    show("running", "Counting and computing …");
    const result = await judged(get, by("experiment").value.trim(), ({ round: number, verdict, part, text }) => {
      if (number) { const row = made("tr"); row.append(made("td", number), made("td", verdict)); by("rounds").append(row); } else [by("doing").textContent, by("progress").value] = [text, part];
    });
    by("doing").textContent = "";
    show(result.verdict, result.fault ?? `This is the model: ${result.replayed} of ${result.rounds} rounds stepped again, ${result.recounted.toLocaleString("en")} packages counted again.`);
    by("digest").textContent = result.digest ?? "";
    for (const [id, hidden] of [["progress", true], ["remains", !result.not_checked]]) by(id).hidden = hidden;
    by("unchecked").append(...(result.not_checked ?? []).map((sentence) => made("li", sentence)));
  };
  by("folder").addEventListener("change", ({ target }) => {
    const files = new Map(Array.from(target.files, (file) => [file.webkitRelativePath.replace(/^[^/]*/, ""), file]));
    run(async (path) => (files.has(inFolder(path)) ? new Uint8Array(await files.get(inFolder(path)).arrayBuffer()) : null));
  });
  by("address").addEventListener("submit", (event) => { event.preventDefault(); run(web(by("url").value)); });
})();
