// Everything of other people's packages that the console uses; the input of scripts/console.sh.
export { geoCircle, geoDistance, geoGraticule10, geoMercator, geoPath } from "d3-geo";
export { pointer, select } from "d3-selection";
export { zoom, zoomIdentity } from "d3-zoom";
export { feature, mesh } from "topojson-client";
