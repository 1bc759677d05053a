/* ---- Upkeep: returning idle memory to the kernel ---- */
