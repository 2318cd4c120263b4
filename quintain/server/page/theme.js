// Sets the chosen theme before anything is painted: a plain script, not a module.
"use strict";
try {
  const chosen = localStorage.getItem("quintain-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing: the system's theme it is.
}
