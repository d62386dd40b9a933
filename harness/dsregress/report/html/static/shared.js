// What the scripts of several pages need.
"use strict";

// What the reader has chosen, in the address: "#from=0.16.8&to=0.19.8". Every form of a page keeps what others wrote there.
window.dsregressChoices = {
  read: () => new URLSearchParams(location.hash.slice(1)),
  write: (pairs) => {
    const all = new URLSearchParams(location.hash.slice(1));
    for (const [name, value] of pairs) {
      if (value) all.set(name, value);
      else all.delete(name);
    }
    const text = all.toString();
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  },
};

// Runs a script that hands over data, once: pages from file:// may read no other files.
window.dsregressLoad = (() => {
  const loads = new Map();
  return (file) => {
    if (!loads.has(file)) {
      loads.set(file, new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = file;
        script.onload = resolve;
        script.onerror = () => reject(new Error(file));
        document.head.append(script);
      }));
    }
    return loads.get(file);
  };
})();
