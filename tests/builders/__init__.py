"""What tests are built from: values that no machine measured, and tiny packages. Test modules do not import one another."""
