/* ---- Memory groups ---- */
