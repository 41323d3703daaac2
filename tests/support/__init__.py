"""What tests of every room share: real servers, fresh databases, builders."""
