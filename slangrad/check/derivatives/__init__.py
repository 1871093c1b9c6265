"""What has a derivative, which one users gave, and where one would get lost."""
