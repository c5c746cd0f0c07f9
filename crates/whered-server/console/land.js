// Layers of the base canvas: land and graticule below, borders above what is in between.

import { feature, geoGraticule10, mesh } from "./vendor.js";
import { toPath } from "./map.js";
import { color } from "./theme.js";

/** Loads the outlines and puts both layers around `between`. */
export async function addLand(map, between) {
  const response = await fetch(new URL("./world.json", import.meta.url));
  const world = await response.json();
  const land = toPath(feature(world, world.objects.countries));
  const borders = toPath(mesh(world, world.objects.countries, (one, other) => one !== other));
  const graticule = toPath(geoGraticule10());
  const stroke = (context, path, name, pixels) => {
    context.strokeStyle = color(name);
    context.lineWidth = pixels / map.transform.k;
    context.stroke(path);
  };
  map.addLayer("base", {
    draw(context) {
      map.inUnits(context);
      stroke(context, graticule, "graticule", 0.5);
      context.fillStyle = color("land");
      context.fill(land);
      stroke(context, land, "coast", 0.7);
    },
  });
  map.addLayer("base", between);
  map.addLayer("base", {
    draw(context) {
      map.inUnits(context);
      stroke(context, borders, "border", 0.7);
    },
  });
}
