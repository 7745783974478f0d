// Many sets of public files, judged by the verifier in one process: node cases.js CASES.json, a list of {folder, changes, now}:
// changes by path, base64 or null for a file that is not there; the instant of looking. One line of JSON: what is said of each.
"use strict";
const fs = require("node:fs"), path = require("node:path");
const source = fs.readFileSync(path.join(__dirname, "../../../verifier/verify.js"), "utf8");
const { judged, inFolder } = new Function("require", "module", `${source}; return { judged, inFolder };`)(require, {});
const main = async () => {
  const said = [];
  for (const { folder, changes, now } of JSON.parse(fs.readFileSync(process.argv[2], "utf8"))) {
    const get = async (name) => {
      if (name in changes) return changes[name] === null ? null : new Uint8Array(Buffer.from(changes[name], "base64"));
      const place = folder + inFolder(name);
      return fs.existsSync(place) ? new Uint8Array(fs.readFileSync(place)) : null;
    };
    said.push(await judged(get, "", () => {}, now));
  }
  console.log(JSON.stringify(said));
};
main();
