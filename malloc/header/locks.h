/* ---- Lock report ---- */
