// The age of the measurements, as a page is read.
"use strict";
(() => {
  const time = document.querySelector("time[data-age]");
  if (!time) return;
  const days = Math.floor((Date.now() - Date.parse(time.dateTime)) / 86400000);
  if (days >= 0) time.textContent = days === 0 ? ", today" : `, ${days} day${days === 1 ? "" : "s"} ago`;
})();
