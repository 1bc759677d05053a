/* ---- Sandboxes ---- */
