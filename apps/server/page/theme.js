/* Runs before the page is drawn, so that a theme chosen earlier does not flash. The rest of the page is in modules. */
try {
    const theme = localStorage.getItem("ruvllm.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
    /* storage is refused: the system's theme it is */
}
