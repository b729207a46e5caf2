"""The service: REST, FHIR and the review page, for the command line `alphita serve`."""
