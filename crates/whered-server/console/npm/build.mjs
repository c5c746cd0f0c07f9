// Makes vendor.js, world.json and NOTICE.txt of the console from the packages beside this file.
//
//   node build.mjs PACKAGES OUTPUT    PACKAGES: the folder node_modules that `npm ci` filled
//
// scripts/console.sh calls it. The same packages give the same bytes.

import { createRequire } from "node:module";
import fs from "node:fs";
import path from "node:path";

const [packages, output] = process.argv.slice(2).map((folder) => path.resolve(folder));
const here = import.meta.dirname;
const esbuild = createRequire(path.join(packages, "x.js"))("esbuild");

const built = esbuild.buildSync({
  entryPoints: [path.join(here, "vendor.js")],
  nodePaths: [packages],
  alias: { "d3-color": path.join(here, "no-color.js") },
  absWorkingDir: packages,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  banner: { js: "/* d3, topojson-client: licences in NOTICE.txt; made by scripts/console.sh */" },
  write: false,
  metafile: true,
});
fs.writeFileSync(path.join(output, "vendor.js"), built.outputFiles[0].contents);

// The outlines alone: names, codes and the second copy of all land are not shown. A step of
// the grid is 4 km, less than what the outlines are simplified by.
const topojson = createRequire(path.join(packages, "x.js"))("topojson-client");
const full = JSON.parse(fs.readFileSync(path.join(packages, "world-atlas/countries-110m.json")));
const { type, geometries } = full.objects.countries;
const outlines = geometries.map((one) => ({ type: one.type, arcs: one.arcs }));
const countries = { type, geometries: outlines };
const world = topojson.quantize(untransformed({ ...full, objects: { countries } }), 1e4);
fs.writeFileSync(path.join(output, "world.json"), JSON.stringify(world) + "\n");

// quantize takes coordinates in degrees.
function untransformed({ transform, ...topology }) {
  const { scale, translate } = transform;
  const arcs = topology.arcs.map((arc) => {
    let [x, y] = [0, 0];
    return arc.map(([right, up]) => {
      [x, y] = [x + right, y + up];
      return [x * scale[0] + translate[0], y * scale[1] + translate[1]];
    });
  });
  return { ...topology, arcs };
}

// Who made what is in the bundle.
const bundled = Object.keys(built.metafile.inputs)
  .map((file) => file.match(/^([a-z0-9-]+)\//)?.[1])
  .filter(Boolean);
const names = [...new Set([...bundled, "world-atlas"])].sort();
const parts = names.map((name) => {
  const { version, license } = JSON.parse(
    fs.readFileSync(path.join(packages, name, "package.json")),
  );
  const file = fs.readdirSync(path.join(packages, name)).find((one) => /^licen[sc]e/i.test(one));
  const text = file && fs.readFileSync(path.join(packages, name, file), "utf8").trim();
  return { title: `${name} ${version} (${license})`, text };
});
let notice = "The console has parts of these packages inside, each under its licence.\n";
for (const text of new Set(parts.map((part) => part.text))) {
  const titles = parts.filter((part) => part.text === text).map(({ title }) => title);
  notice += `\n${"=".repeat(80)}\n${titles.join("\n")}\n\n${text}\n`;
}
notice += `\n${"=".repeat(80)}\nOutlines of countries: Natural Earth, public domain.\n`;
fs.writeFileSync(path.join(output, "NOTICE.txt"), notice);
