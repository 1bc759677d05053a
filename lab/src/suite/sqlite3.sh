# SQLite's shell with a database in memory: inserts one by one and in bulk, an index, grouping, joins and deletes.
if [ "$1" = prepare ]; then
    {
        echo 'BEGIN; CREATE TABLE sale(id INTEGER PRIMARY KEY, customer TEXT, amount INTEGER, note TEXT);'
        row=0
        while [ "$row" -lt 10000 ]; do
            row=$((row + 1))
            echo "INSERT INTO sale VALUES($row, 'customer $((row * 31 % 5003))', $((row * 17 % 1000)), 'note $row');"
        done
        cat <<'END'
COMMIT;
WITH RECURSIVE counter(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter WHERE n < 60000)
  INSERT INTO sale
  SELECT n + 40000, 'customer ' || (n * 7919 % 5003), n * 31 % 1000, printf('note %08x', n * 2654435761 % 4294967296)
  FROM counter;
CREATE INDEX sale_customer ON sale(customer);
CREATE TABLE total AS
  SELECT customer, count(*) AS sales, sum(amount) AS amount, group_concat(substr(note, 6, 2), '') AS notes
  FROM sale GROUP BY customer;
SELECT count(*), sum(sales), sum(amount), sum(length(notes)) FROM total;
SELECT sum(total.amount % 97), count(DISTINCT substr(note, 6, 4))
  FROM sale JOIN total USING (customer) WHERE sale.amount < 300;
SELECT note FROM sale ORDER BY note LIMIT 1 OFFSET 30000;
UPDATE sale SET note = note || ' (checked)' WHERE amount % 3 = 0;
DELETE FROM sale WHERE amount % 5 = 0;
SELECT count(*), sum(length(note)), max(customer) FROM sale;
END
    } > sale.sql
    exit
fi
exec "$PROGRAM" -batch -bail :memory: '.read sale.sql'
