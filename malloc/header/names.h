/* ---- Settings and statistics by name ---- */
