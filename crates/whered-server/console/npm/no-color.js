// Stands for d3-color in vendor.js. Only transitions of colours use it, and the console has none.
export const color = () => null;
export const rgb = color;
export const hsl = color;
export const lab = color;
export const hcl = color;
export const cubehelix = color;
