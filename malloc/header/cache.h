/* ---- Object caches ---- */
