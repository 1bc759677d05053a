# sqlite3: tables with indices, joins, transactions and triggers, in memory and in a file.

cat > work.sql <<'SQL'
PRAGMA cache_size = 500;
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL, blob BLOB);
CREATE TABLE sale (id INTEGER PRIMARY KEY, item INTEGER REFERENCES item, number INTEGER);
CREATE TABLE total (item INTEGER PRIMARY KEY, number INTEGER);
CREATE TRIGGER count_sale AFTER INSERT ON sale BEGIN
    INSERT INTO total VALUES (new.item, new.number)
        ON CONFLICT (item) DO UPDATE SET number = number + excluded.number;
END;
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
    INSERT INTO item SELECT i, printf('item %05d', i * 7919 % 20000), i * 1.5, zeroblob(i % 500) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
    INSERT INTO sale SELECT i, i * 104729 % 20000 + 1, i % 9 FROM n;
COMMIT;
CREATE INDEX by_name ON item (name);
CREATE INDEX by_item ON sale (item, number);
SELECT name, sum(sale.number * price) AS worth, total.number FROM item JOIN sale ON sale.item = item.id
    JOIN total ON total.item = item.id GROUP BY item.id ORDER BY worth DESC, name LIMIT 5;
BEGIN;
DELETE FROM sale WHERE item % 3 = 0;
ROLLBACK;
DELETE FROM sale WHERE item % 5 = 0;
UPDATE item SET blob = zeroblob(length(blob) * 2) WHERE id % 4 = 0;
SELECT count(*) FROM sale;
VACUUM;
PRAGMA integrity_check;
SQL
sqlite3 :memory: < work.sql
sqlite3 file.db < work.sql
sqlite3 file.db .dump | cksum
sqlite3 file.db 'SELECT missing FROM item' 2>&1 || echo "status $?"
