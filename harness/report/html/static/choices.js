// What the reader has chosen, in the address: "#from=0.16.8&to=0.19.8". Every form of a page keeps what others wrote there.
"use strict";
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
