DROP TABLE received, received_over, received_epochs;
