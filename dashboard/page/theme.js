// The theme that was chosen, before anything is drawn. A plain script, since modules come later.
(() => {
  const root = document.documentElement;
  const themes = ["system", "light", "dark"];
  const apply = (theme) => { root.dataset.theme = themes.includes(theme) ? theme : "system"; };
  try {
    apply(localStorage.getItem("leapgate-theme"));
  } catch {
    apply("system"); // storage may be forbidden
  }
  addEventListener("DOMContentLoaded", () => {
    const choice = document.getElementById("theme");
    choice.value = root.dataset.theme;
    choice.addEventListener("change", () => {
      apply(choice.value);
      try {
        localStorage.setItem("leapgate-theme", choice.value);
      } catch { /* then it holds until the page is left */ }
    });
  });
})();
