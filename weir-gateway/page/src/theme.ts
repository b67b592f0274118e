// Applies the chosen look before the first paint; main.ts has the switch.
const chosen = localStorage.getItem("weir-theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset["theme"] = chosen;
