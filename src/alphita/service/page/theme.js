// Light or dark, before anything is drawn. "system" follows the machine's own setting.
document.documentElement.dataset.theme = localStorage.getItem("alphita.theme") || "system";
