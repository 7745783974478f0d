/**
 * Builds both packages of the extension: `node build.ts [FOLDER]`, for FOLDER or dist/.
 *
 * FOLDER/chromium and FOLDER/firefox can be loaded unpacked; the zip files beside them are what the stores get. The
 * same sources give the same bytes, wherever they lie. Prints as JSON what was made.
 */

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { gzipSync } from "node:zlib";

import { build, type Plugin } from "esbuild";

import { icon } from "./packaging/icon.ts";
import { zip } from "./packaging/zip.ts";

const HERE = import.meta.dirname;
const PERSON = join(HERE, "../src/secvm/participant/ui/static");
const LOOK = join(HERE, "../src/secvm/pages/static");
const BROWSERS = ["chromium", "firefox"] as const;
const ICON_SIDES = [16, 32, 48, 128];
const LANGUAGES = ["en", "de"];
/** What of the page is not copied to its scripts: how it talks to Python's program, and the page itself. */
const NOT_BESIDE = ["talk.js", "person.html"];

type Files = Map<string, Uint8Array>;

/** Scripts of the page that are files of their own in the package: each exists once. */
const beside: Plugin = {
  name: "beside",
  setup: ({ onResolve }) =>
    onResolve({ filter: /^person\// }, ({ path }) => ({ path: path.replace("person", "."), external: true })),
};

/** Bytes of all scripts that are made here, gzipped. */
let bundled = 0;

async function script(entry: string): Promise<Uint8Array> {
  const { outputFiles } = await build({
    absWorkingDir: HERE,
    entryPoints: [entry],
    bundle: true,
    write: false,
    format: "esm",
    target: ["chrome137", "firefox140"],
    charset: "utf8",
    legalComments: "inline",
    minify: true,
    // Names in the output are those of this folder, wherever the packages lie.
    preserveSymlinks: true,
    plugins: [beside],
  });
  const { contents } = outputFiles[0]!;
  bundled += gzipSync(contents, { level: 9 }).length;
  return contents;
}

function json(...path: string[]): Record<string, unknown> {
  return JSON.parse(readFileSync(join(HERE, ...path), "utf8"));
}

function written(value: unknown): Buffer {
  return Buffer.from(`${JSON.stringify(value, null, 2)}\n`);
}

/** What both packages have. */
async function commonFiles(): Promise<Files> {
  const files: Files = new Map();
  for (const name of readdirSync(PERSON)) {
    if (!NOT_BESIDE.includes(name)) files.set(`static/${name}`, readFileSync(join(PERSON, name)));
  }
  for (const name of ["look.css", "dom.js"]) files.set(`static/${name}`, readFileSync(join(LOOK, name)));
  for (const language of LANGUAGES) {
    const name = `texts.${language}.json`;
    files.set(`static/${name}`, written({ ...json(relative(HERE, PERSON), name), ...json("pages", name) }));
    files.set(`_locales/${language}/messages.json`, written(json("_locales", language, "messages.json")));
  }
  files.set("person.html", readFileSync(join(PERSON, "person.html")));
  files.set("popup.html", readFileSync(join(HERE, "pages/popup.html")));
  files.set("static/popup.css", readFileSync(join(HERE, "pages/popup.css")));
  files.set("static/talk.js", await script("src/pages/talk.ts"));
  files.set("static/popup.js", await script("src/pages/popup.ts"));
  files.set("background.js", await script("src/background.ts"));
  const drawing = readFileSync(join(PERSON, "person.svg"), "utf8");
  for (const side of ICON_SIDES) files.set(`icons/${side}.png`, icon(drawing, side));
  return files;
}

/** The manifest of one browser: what both have, and what it has beyond. */
function manifest(browser: string): Record<string, unknown> {
  const icons = Object.fromEntries(ICON_SIDES.map((side) => [side, `icons/${side}.png`]));
  const { version } = json("package.json");
  const common = json("manifests/common.json");
  const action = { ...(common["action"] as object), default_icon: icons };
  return { ...common, version, icons, action, ...json("manifests", `${browser}.json`) };
}

async function main(out: string): Promise<void> {
  const common = await commonFiles();
  const made = BROWSERS.map((browser) => {
    const told = manifest(browser);
    const files: Files = new Map([...common, ["manifest.json", written(told)]]);
    rmSync(join(out, browser), { recursive: true, force: true });
    for (const [name, content] of files) {
      const path = join(out, browser, name);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, content);
    }
    const [file, data] = [join(out, `secvm-${browser}-${told["version"]}.zip`), zip(files)];
    writeFileSync(file, data);
    const { length: gzipped } = gzipSync(data, { level: 9 });
    const sha256 = createHash("sha256").update(data).digest("hex");
    return { browser, file, sha256, bytes: data.length, gzipped, bundled, manifest: told };
  });
  console.log(JSON.stringify(made));
}

if (!existsSync(PERSON)) throw new Error(`${PERSON} is missing: the page of the person is part of the extension`);
await main(process.argv[2] ?? join(HERE, "dist"));
