DROP TABLE lease, driver;
