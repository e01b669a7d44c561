// Numbers for people, and sizes that people write.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

function formatBytes(value) {
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = Number.isInteger(value) ? 0 : Math.abs(value) >= 100 ? 1 : 2;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

const formatCount = (value) => value.toLocaleString("en-US");
const formatGiB = (value) => (value / 2 ** 30).toFixed(value >= 10 * 2 ** 30 ? 1 : value >= 2 ** 30 ? 2 : 3);
const formatPercent = (value) => (100 * value).toFixed(1);
const formatNumber = (value) => (value >= 100 || value === 0 ? formatCount(Math.round(value)) : value.toFixed(2));

// "64MiB", "64 M", "1.5g" or "4096"; null if it is no size. Units are powers of 1024.
function parseBytes(text) {
  const match = /^(\d+(?:\.\d+)?)\s*(?:([kmgtp]?)i?b?)?$/i.exec(text.trim());
  return match ? Number(match[1]) * 1024 ** " kmgtp".indexOf((match[2] || " ").toLowerCase()) : null;
}
