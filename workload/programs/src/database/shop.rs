//! The application: a shop that keeps its customers and orders, and writes its statements as text.

use fastrand::Rng;

use super::execute::Database;
use super::table::Row;
use super::value::Value;
use crate::checksum::{mix, mix_bytes};

const CITIES: [&str; 6] = ["Aarhus", "Bergen", "Cork", "Dresden", "Évora", "Faenza"];
const ITEMS: [&str; 12] = [
    "lamp",
    "chair",
    "desk",
    "shelf",
    "carpet",
    "mirror",
    "clock",
    "vase",
    "stool",
    "bench",
    "curtain",
    "candle holder",
];
const NOTES: &str = "Leave it with the neighbours if nobody opens; the bell doesn't work. \
                     Ring twice, then wait for a while. \
                     Wrap it as a present, please, and add a card without a price. \
                     The invoice goes to the office instead.";

const CUSTOMERS: u32 = 5000;
const CUSTOMERS_A_STATEMENT: u32 = 50;

/// A shop, and what it was told so far.
pub struct Shop {
    rng: Rng,
    database: Database,
    orders: u32,
    sum: u64,
}

impl Shop {
    /// A shop with customers and no orders.
    pub fn new() -> Shop {
        let mut shop = Shop { rng: Rng::with_seed(13), database: Database::default(), orders: 0, sum: 0 };
        shop.tell("CREATE TABLE customers (id, name, city, spent)");
        shop.tell("CREATE TABLE orders (id, customer, item, price, note)");
        shop.tell("CREATE INDEX ON orders (customer)");
        for first in (0..CUSTOMERS).step_by(CUSTOMERS_A_STATEMENT as usize) {
            let customers: Vec<String> = (first..first + CUSTOMERS_A_STATEMENT).map(|id| shop.customer(id)).collect();
            shop.tell(&format!("INSERT INTO customers VALUES {}", customers.join(", ")));
        }
        shop
    }

    /// What happens next in the shop: a few statements.
    pub fn step(&mut self) {
        let customer = self.rng.u32(0..CUSTOMERS);
        match self.rng.u32(0..100) {
            0..45 => self.order(customer),
            45..70 => self.show_orders(customer),
            70..85 => self.show_customer(customer),
            85..95 => self.cancel_orders(customer),
            95..99 => self.report_items(),
            _ => self.report_cities(),
        }
    }

    /// The checksum of all results.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// A new customer's row, as text.
    fn customer(&mut self, id: u32) -> String {
        let (city, number) = (CITIES[self.rng.usize(0..CITIES.len())], self.rng.u32(..));
        format!("({id}, 'Customer {number:x} O''Neill', '{city}', 0)")
    }

    fn order(&mut self, customer: u32) {
        self.orders += 1;
        let (item, price) = (ITEMS[self.rng.usize(0..ITEMS.len())], self.rng.u32(1..500));
        let note = NOTES[..self.rng.usize(0..NOTES.len())].replace('\'', "''");
        let id = self.orders;
        self.tell(&format!("INSERT INTO orders VALUES ({id}, {customer}, '{item}', {price}, '{note}')"));
        self.tell(&format!("UPDATE customers SET spent = spent + {price} WHERE id = {customer}"));
    }

    fn show_orders(&mut self, customer: u32) {
        self.tell(&format!(
            "SELECT id, item, price, note FROM orders WHERE customer = {customer} ORDER BY price DESC LIMIT 10"
        ));
    }

    fn show_customer(&mut self, customer: u32) {
        self.tell(&format!("SELECT name || ' of ' || city, spent FROM customers WHERE id = {customer}"));
    }

    fn cancel_orders(&mut self, customer: u32) {
        let price = self.rng.u32(1..500);
        self.tell(&format!("DELETE FROM orders WHERE customer = {customer} AND price > {price}"));
    }

    /// What was sold of late.
    fn report_items(&mut self) {
        let first = self.orders.saturating_sub(self.rng.u32(100..1000));
        self.tell(&format!(
            "SELECT item, COUNT(*), SUM(price) FROM orders WHERE id > {first} AND NOT note LIKE '%present%' \
             GROUP BY item ORDER BY SUM(price) DESC"
        ));
    }

    /// Where some customers live who buy.
    fn report_cities(&mut self) {
        let first = self.rng.u32(0..CUSTOMERS);
        self.tell(&format!(
            "SELECT city, SUM(spent), COUNT(*) FROM customers WHERE id >= {first} AND spent > 0 \
             GROUP BY city ORDER BY city"
        ));
    }

    fn tell(&mut self, statement: &str) {
        let rows = self.database.execute(statement).unwrap_or_else(|why| panic!("{statement}: {why}"));
        self.sum = rows.iter().fold(mix(self.sum, rows.len() as u64), mix_row);
    }
}

fn mix_row(sum: u64, row: &Row) -> u64 {
    row.iter().fold(sum, |sum, value| match value {
        Value::Integer(number) => mix(sum, *number as u64),
        Value::Text(text) => mix_bytes(sum, text.as_bytes()),
    })
}
